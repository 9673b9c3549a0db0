"""What an operator or auditor reads of the record: explain, trace, verify, report and export."""

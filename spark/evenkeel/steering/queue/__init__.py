"""Commands, reports and controls on SQS FIFO queues: their shapes on the wire, and how they get there and back."""

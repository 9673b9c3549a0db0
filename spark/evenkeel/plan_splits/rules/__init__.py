"""Split rules of both load managers, and the execution of a chosen split. Pure."""

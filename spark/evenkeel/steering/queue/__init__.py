"""Commands, reports and controls on SQS FIFO queues: their format, and their transport."""

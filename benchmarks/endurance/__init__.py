"""What shows only with size and time: long queues, histories and transactions, many processes, a million jobs."""

"""The agent beside a cluster: takes commands from a queue, carries them out, and reports back.

It promises that a command has **at most one effect**, however often and in whatever order the queue delivers it, and
whenever the agent is killed. The promise rests on four mechanisms, each of which works without the queue's own
deduplication:

1. The ledger. It commits that a request is about to be sent before that happens, and the outcome before it is reported.
A message is deleted only once its report is on the reports queue. One agent owns a ledger at a time.

2. Waiting and looking. A command found half-way after a crash waits until the longest request is over. Then the cluster
is read, and only a command without an effect whose premise still holds may be sent again.

3. The lease. The right to a message is renewed right before its request is sent, after the look at the cluster, for
longer than the longest request can take. No other agent receives it (or a later one of its namespace) meanwhile.

4. The fence. Before sending, owner and boundaries are read again (`steering.command_executor`). Two agents with a
ledger each share only the cluster: the fence holds if an agent froze for longer than its lease.
"""

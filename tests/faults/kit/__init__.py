"""What the machines share, so that each has only what it alone does.

`program` makes a command of a plan and gives the verdict; `databases` chooses the server and its
URL; `workers` and `crew` start, kill, freeze and replace worker processes; `broker` and `proxy` are
a RabbitMQ node and a network that can be troubled; `timer` is the clock of a loop that does several
things; `reading`, `histories` and `promises` look into the tables; `handlers` fail as handlers do.
"""

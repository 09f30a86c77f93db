"""The choice of a record for each operator of a model, so that the operators and the relayouts between them take the least time (classic
`autotvm.graph_tuner`).

pbqp           partitioned boolean quadratic problems: variables with costs, and costs between pairs of them
elimination    their exact solution by dynamic programming
layout_graph   such a problem from a model and records
tuner          measures relayouts, solves, writes records
"""

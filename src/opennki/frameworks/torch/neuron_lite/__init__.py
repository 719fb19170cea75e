"""What `import libtorch_neuronx_lite` gives where the real package is absent: operators around kernels."""

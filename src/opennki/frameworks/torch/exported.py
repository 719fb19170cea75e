"""Exported programs as executables: PyTorch's own operators run in PyTorch, kernels as they were baked."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from msgspec.structs import replace
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils import _pytree as pytree

from opennki.build.executable import BakedCall, Executable, Runnable, RunResult, check_count
from opennki.diag import Diagnostic, fail
from opennki.frameworks.torch.archive import checked_files, files_of, program_of
from opennki.frameworks.torch.baking import (
    bake_calls,
    bind_calls,
    calls_in,
    for_graph,
    rename_calls,
)
from opennki.frameworks.torch.calls import is_input
from opennki.frameworks.torch.config import (
    artifact_of,
    digest_of,
    parse_config,
    register_artifact,
)
from opennki.frameworks.torch.kernel_ops import decompositions
from opennki.frameworks.torch.tensors import array_of, tensor_of
from opennki.graph import KernelCall
from opennki.ir.types import Input, Output, Signature, Structure
from opennki.lnc import check_runtime
from opennki.settings import Setting
from opennki.targets import TARGETS, Target

__all__ = ["GraphExecutable", "compile_exported", "executable_of", "kernel_calls"]

Array = np.ndarray[Any, Any]


class GraphExecutable(Executable):
    """A compiled graph of PyTorch. Call it on tensors, or on NumPy arrays to get arrays.

    State: the module that runs it, whose nodes name the baked calls.
    """

    def __init__(
        self,
        program: ExportedProgram,
        calls: Sequence[BakedCall],
        lnc: int,
        target: Target,
        findings: Iterable[Diagnostic] = (),
    ) -> None:
        super().__init__((), lnc, target, tuple(findings))
        self.calls = tuple(calls)
        self.name = "model"
        self._program = program
        self._signature = _signature_of(program)
        self._module = _own_buffers(program.module())
        nodes = calls_in(self._module)
        self._bound = bind_calls(nodes, self)

    @property
    def framework(self) -> str | None:
        """PyTorch's adapter."""
        return "torch"

    @property
    def whole(self) -> Runnable | None:
        """The graph itself."""
        return self

    @property
    def signature(self) -> Signature:
        """The tensors that the program takes, under their names in it, and those that it gives."""
        return self._signature

    def framework_files(self) -> Mapping[str, bytes]:
        """Return the files of the program's archive."""
        return files_of(self._program)

    def __call__(self, *values: Any) -> Any:
        """Return what the program returns, nested as it nests it; inputs that it writes are changed in place.

        `values` are the program's tensors in order, or its arguments as they are nested. Errors: ONKI006,
        ONKI304, ONKI702, ONKI703, those of running its kernels.
        """
        leaves = [
            value for value in pytree.tree_leaves(values) if isinstance(value, torch.Tensor | np.ndarray)
        ]
        result, arrays = self._run(leaves)
        if any(isinstance(value, torch.Tensor) for value in leaves):
            return result
        return pytree.tree_map_only(torch.Tensor, lambda tensor: _back(tensor, arrays), result)

    def run(self, arrays: Sequence[Array]) -> RunResult:
        """Return the outputs as arrays, in the order of the signature, and the value."""
        result, tensors = self._run(arrays)
        value = pytree.tree_map_only(torch.Tensor, lambda tensor: _back(tensor, tensors), result)
        found = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, np.ndarray)]
        return RunResult(tuple(found), value)

    def _run(self, values: Sequence[Any]) -> tuple[Any, list[tuple[Any, torch.Tensor]]]:
        """Return the result as tensors, and each given value beside its tensor."""
        check_runtime(self.lnc, self._target)
        inputs = self.signature.inputs
        check_count("the graph", self.signature, values)
        given = [(value, _checked(spec, value)) for spec, value in zip(inputs, values, strict=True)]
        tensors = iter(tensor for _, tensor in given)
        known = {spec.name for spec in inputs}
        flat = [
            next(tensors) if name in known else name for name in self._program.graph_signature.user_inputs
        ]
        args, kwargs = pytree.tree_unflatten(flat, self._program.call_spec.in_spec)
        with torch.no_grad():
            return self._module(*args, **kwargs), given

    def __repr__(self) -> str:
        names = ", ".join(dict.fromkeys(call.name for call in self.calls)) or "no kernel"
        return f"<Executable of a PyTorch graph ({names}) target={self.target} lnc={self.lnc}>"


def _own_buffers(module: Any) -> Any:
    """Give a module buffers of its own: runs may write them, and a file holds those of the program."""
    copies: dict[int, torch.Tensor] = {}
    for part in module.modules():
        for name, buffer in list(part.named_buffers(recurse=False, remove_duplicate=False)):
            setattr(part, name, copies.setdefault(id(buffer), buffer.clone()))
    return module


def _back(tensor: torch.Tensor, given: Sequence[tuple[Any, torch.Tensor]]) -> Any:
    """Return a result as an array: the caller's own where it is an input."""
    for value, known in given:
        if tensor is known:
            return value
    return array_of(tensor)


def _checked(spec: Input, value: Any) -> torch.Tensor:
    dtype = str(value.dtype).removeprefix("torch.")
    if dtype != spec.dtype or tuple(value.shape) != spec.shape:
        got = f"{dtype}{list(value.shape)}"
        fail("ONKI702", name=spec.name, got=got, expected=f"{spec.dtype}{list(spec.shape)}")
    if isinstance(value, torch.Tensor):
        return value
    if not value.flags.writeable:
        if spec.is_written:
            fail("ONKI703", name=spec.name)
        value = value.copy()
    return tensor_of(value if all(step >= 0 for step in value.strides) else value.copy())


# ------------------------------------------------------------------------------------------- compilation


def compile_exported(
    graph: object,
    examples: Sequence[object],
    values: Mapping[str, object],
    degree: Setting[int],
    target: Setting[Target],
) -> GraphExecutable:
    """Return the executable of an exported program, or of a module or function that is exported here.

    Errors: those of baking, all kernel calls in one go; ONKI006 for examples beside a program, ONKI602.
    """
    if isinstance(graph, ExportedProgram):
        if examples or values:
            problem = "examples are given beside an exported program, which needs none"
            fail("ONKI006", problem=problem, help=["leave them out"])
        program = graph
    elif isinstance(graph, torch.nn.Module) or callable(graph):
        program = _export(graph, examples, values)
    else:
        fail("ONKI602", graph=type(graph).__name__, reason="it is no exported program, module or function")
    program = _own_copy(program)
    nodes = calls_in(program.graph_module)
    baked = bake_calls(nodes, degree, target)
    texts = []
    for node, call in zip(nodes, baked.calls, strict=True):
        config, artifact = node.config, call.artifact
        texts.append(
            replace(
                config,
                binary=register_artifact(artifact),
                grid=(artifact.lnc,),
                variant=0,
                degree=None
                if config.degree is None or config.degree.value != artifact.lnc
                else config.degree,
            ).text
        )
    rename_calls(nodes, texts)
    return GraphExecutable(program, baked.calls, degree.value, target.value, baked.findings)


def kernel_calls(
    program: ExportedProgram, degree: Setting[int], target: Setting[Target]
) -> tuple[KernelCall, ...]:
    """Return the kernel calls of a program, each as its graph needs it."""
    nodes = calls_in(_own_copy(program).graph_module)
    return tuple(for_graph(node, degree, target) for node in nodes)


def _export(graph: Any, examples: Sequence[object], values: Mapping[str, object]) -> ExportedProgram:
    module = graph if isinstance(graph, torch.nn.Module) else _Function(graph)
    with torch.no_grad():
        return torch.export.export(module, tuple(examples), dict(values))


class _Function(torch.nn.Module):
    """A function as the module that `torch.export` asks for."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)


def _own_copy(program: ExportedProgram) -> ExportedProgram:
    """Return a program whose nodes may be changed, as a new process would read it.

    Operators of `nki_op` are taken apart into kernel calls first.
    """
    table = decompositions()
    if any(node.target in table for node in program.graph.nodes if node.op == "call_function"):
        program = _decomposed(program, table)
    return program_of(files_of(program), "the exported program")


def _decomposed(program: ExportedProgram, table: Mapping[Any, Any]) -> ExportedProgram:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PyTorch's, about its own copies
        found: ExportedProgram = program.run_decompositions(dict(table))
        return found


def executable_of(files: Mapping[str, bytes], executable: Executable, file: str) -> GraphExecutable:
    """Return the executable of the program in a `.nkx` file. Errors: ONKI502, ONKI614."""
    program = program_of(checked_files(files, file), file)
    nodes = calls_in(program.graph_module)
    digests = [digest_of(call.artifact) for call in executable.calls]
    if [node.config.binary for node in nodes] != digests:
        fail("ONKI502", file=file, reason="the kernel calls of its graph are not those of its list")
    for call in executable.calls:
        register_artifact(call.artifact)
    return GraphExecutable(program, executable.calls, executable.lnc, TARGETS[executable.target])


def _signature_of(program: ExportedProgram) -> Signature:
    """Return the tensors that go in and out, by the names that the program gives them."""
    nodes = {node.name: node for node in program.graph.nodes}
    written = _written(program)
    inputs = tuple(
        Input(name, f"input:{name}", *_shape(nodes[name].meta["val"]), name in written)
        for name in program.graph_signature.user_inputs
        if isinstance(name, str) and isinstance(nodes[name].meta.get("val"), torch.Tensor)
    )
    names = [tensor.name for tensor in inputs]
    outputs = []
    for name in program.graph_signature.user_outputs:
        if isinstance(name, str) and name in nodes:
            shape, dtype = _shape(nodes[name].meta["val"])
            alias = names.index(name) if name in names else -1
            outputs.append(Output(_output_name(nodes[name]), name, shape, dtype, 0, (), alias))
    returns = Structure("tuple", items=tuple(Structure("leaf", i) for i in range(len(outputs))))
    return Signature(inputs, (), tuple(outputs), returns)


def _output_name(node: Node) -> str:
    """Return the name of a result: that of the kernel's output, where it is one, else the node's."""
    if node.target is operator.getitem and isinstance(node.args[0], Node):
        source, number = node.args[0], node.args[1]
        if source.target is torch.ops.opennki.call.default and isinstance(number, int):
            signature = artifact_of(parse_config(str(source.args[0]))).signature
            fresh = [output for output in signature.outputs if not is_input(output, signature)]
            return fresh[number].name
    return node.name


def _shape(value: torch.Tensor) -> tuple[tuple[int, ...], str]:
    return tuple(int(size) for size in value.shape), str(value.dtype).removeprefix("torch.")


def _written(program: ExportedProgram) -> set[str]:
    """Return the names of the inputs that a program writes; functionalization finds them."""
    if not any(
        isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable
        for node in program.graph.nodes
    ):
        return set(program.graph_signature.user_inputs_to_mutate.values())
    return set(_decomposed(program, {}).graph_signature.user_inputs_to_mutate.values())

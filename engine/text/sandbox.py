"""The template engine: jinja2's immutable sandbox, narrowed to listed operations and metered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace
from jinja2.visitor import NodeTransformer

from engine.errors import TemplateError
from engine.text import operations
from engine.text.budget import spend, spend_result, spend_value
from engine.text.operations import Operations
from engine.text.provenance import Mask, MaskedText

_NAMES_OF_TEXT_METHODS: Final = """
    capitalize count endswith find index isalnum isalpha isdigit islower isupper join lower lstrip
    partition removeprefix removesuffix replace rfind rpartition rsplit rstrip split splitlines
    startswith strip title upper
"""
_TEXT_METHODS: Final = frozenset(_NAMES_OF_TEXT_METHODS.split())
# What generated code hands to every call for the sake of functions that take the context.
_FOR_THE_CONTEXT: Final = ("_block_vars", "_loop_vars")
_STRIPS: Final = {"strip", "lstrip", "rstrip"}
_LIST_METHODS: Final = frozenset({"count", "index"})
_DICT_METHODS: Final = frozenset({"get", "items", "keys", "values"})
_OF_THE_ENGINE: Final = (LoopContext, Macro, Namespace, Cycler, Joiner, Undefined)
_FORBIDDEN: Final = (
    nodes.Block,
    nodes.Extends,
    nodes.FromImport,
    nodes.Import,
    nodes.Include,
)


class _Generation(Extension):
    """`{% generation %}`: marks answers in a template for training; here it does nothing."""

    tags = {"generation"}  # noqa: RUF012  (as in the base class)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class Sandbox(ImmutableSandboxedEnvironment):
    """Compiles and runs templates of one tokenizer."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

    def __init__(self, mask: Mask) -> None:
        """Set up what model templates are written for: trimmed blocks, loop controls."""
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", _Generation],
            # Nothing is computed while compiling, where nothing is metered.
            optimized=False,
            finalize=self._finalize,
        )
        self._operations = Operations(mask)
        self._mask = mask
        self.filters = dict(self._operations.filters)
        self.tests = dict(self._operations.tests)
        self.globals = {
            "cycler": Cycler,
            "dict": dict,
            "joiner": Joiner,
            "namespace": Namespace,
            "raise_exception": operations.raise_exception,
            "range": operations.bounded_range,
        }
        self.binop_table |= {
            "*": operations.multiply,
            "**": operations.power,
            "%": operations.remainder,
        }

    def meter(self, tree: nodes.Template) -> nodes.Template:
        """Make a parsed template count what it does.

        Raises:
            TemplateError: it uses other templates, or holds half a surrogate pair.
        """
        for node in tree.find_all(_FORBIDDEN):
            raise TemplateError(f"the template uses {type(node).__name__.lower()}")
        for leaf in tree.find_all((nodes.Const, nodes.TemplateData)):
            _require_utf8(str(leaf.as_const()))
        metered: nodes.Template = _Meter().visit(tree)
        metered.body.insert(0, _tick(tree))
        metered.set_environment(self)
        return metered

    def spend(self, operations_done: int) -> bool:
        """Charge for operations; what metered templates call."""
        spend(operations_done)
        return True

    def concat(self, parts: Iterable[str]) -> str:
        """Join what a template or a macro wrote."""
        return self._mask.recognise(operations.join_texts(parts))

    def _finalize(self, value: object) -> str:
        text = operations.text_of(value)
        spend_result(text)
        return text

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401
        """Compute, within bounds."""
        return self._operations.result(super().call_binop(context, operator, left, right))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:  # noqa: ANN401
        """Allow the listed methods of texts, lists and dictionaries, and jinja2's own objects."""
        if isinstance(obj, str):
            return attr in _TEXT_METHODS
        if isinstance(obj, list | tuple):
            return attr in _LIST_METHODS
        if isinstance(obj, dict):
            return attr in _DICT_METHODS
        return isinstance(obj, _OF_THE_ENGINE) and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, _value: Any) -> None:  # noqa: ANN401
        """Offer no `format`: it is not among the methods of texts."""

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Call a function, macro or method, within bounds."""
        if getattr(obj, "__func__", None) is Sandbox.spend:
            return self.spend(*args)
        spend(1)
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, str):
            for name in _FOR_THE_CONTEXT:
                kwargs.pop(name, None)
            return self._operations.result(self._call_text(owner, obj.__name__, args, kwargs))
        if isinstance(owner, list | tuple):
            spend_value(owner)
        return self._operations.result(super().call(context, obj, *args, **kwargs))

    def _call_text(
        self, owner: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:  # noqa: ANN401
        spend_result(owner)
        if any(isinstance(argument, MaskedText) for argument in args):
            # Only a masked text compares its characters without their masks.
            owner = MaskedText(owner, self._mask)
        if name == "join":
            (parts,) = args
            return operations.join_texts(parts, owner)
        if name == "replace":
            return operations.replace(owner, *args, **kwargs)
        if name in _STRIPS:
            args = tuple(map(operations.check_set, args))
        return getattr(owner, name)(*args, **kwargs)


def _require_utf8(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise TemplateError("the template holds half a surrogate pair") from None


def _tick(*subtrees: nodes.Node) -> nodes.ExprStmt:
    return nodes.ExprStmt(_charge(*subtrees), lineno=subtrees[0].lineno)


def _charge(*subtrees: nodes.Node) -> nodes.Call:
    """Return a call that charges for executing the subtrees once: one operation a node."""
    cost = sum(1 + sum(1 for _ in subtree.find_all(nodes.Node)) for subtree in subtrees)
    line = subtrees[0].lineno
    function = nodes.EnvironmentAttribute("spend", lineno=line)
    return nodes.Call(function, [nodes.Const(cost, lineno=line)], [], None, None, lineno=line)


def _filter(name: str, operand: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(operand, name, [], [], None, None, lineno=operand.lineno)


class _Meter(NodeTransformer):
    """Inserts charges where the length of a template does not bound what happens.

    These are bodies that repeat, and operands of any size.
    """

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802
        tick = _tick(*node.body) if node.body else _tick(node)
        test = _charge(node.test) if node.test is not None else None
        self.generic_visit(node)
        node.body.insert(0, tick)
        if test is not None and node.test is not None:
            node.test = nodes.And(test, node.test, lineno=node.lineno)
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Macro:  # noqa: N802
        tick = _tick(node)
        self.generic_visit(node)
        node.body.insert(0, tick)
        return node

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.CallBlock:  # noqa: N802
        tick = _tick(node)
        self.generic_visit(node)
        node.body.insert(0, tick)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:  # noqa: N802
        self.generic_visit(node)
        return _filter("concatenate", nodes.List(node.nodes, lineno=node.lineno))

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:  # noqa: N802
        self.generic_visit(node)
        node.expr = _filter("measured", node.expr)
        for operand in node.ops:
            operand.expr = _filter("measured", operand.expr)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        return _filter("sized", node) if isinstance(node.arg, nodes.Slice) else node

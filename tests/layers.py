"""The rules for what a file may import and use in its layer, checked on its syntax tree."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "covpool"

# A layer imports only layers before it; "covpool" is the top package with the public names.
ORDER = (
    *("_errors", "_device", "_check_tensors", "_progress", "_cores", "_registry", "_files", "kernels", "ops", "blocks"),
    *("pools", "models", "diagnostics", "io", "covpool", "_settings", "_figures", "_records", "data", "recipe"),
    *("engine", "bench", "studies", "sklearn", "report", "demo", "cli", "__main__"),
)
CORE = ("_errors", "_check_tensors", "_registry", "kernels", "ops", "pools", "blocks")
APPLICATION = ("data", "recipe", "engine", "studies", "sklearn", "report", "bench", "demo", "cli")
WITH_MODULES = ("pools", "blocks", "models")
WITH_OUTSIDE_WORLD = ("_files", "_records", "io", *APPLICATION)
OUTSIDE_WORLD = ("print", "input", "open", "io.open", "os.environ", "os.getenv", "sys.stdout", "sys.stderr")
FILE_METHODS = (".read_text", ".write_text", ".read_bytes", ".write_bytes", "torch.save", "torch.load")
CUSTOM_OPERATIONS = ("torch.library", "torch.utils.cpp_extension", "torch.ops.load_library")


def layer(path: Path) -> str:
    """The layer that a file belongs to."""
    first = path.relative_to(SOURCE).parts[0]
    return "covpool" if first == "__init__.py" else first.removesuffix(".py")


def breaches(path: Path, text: str) -> list[str]:
    """The rules of its layer that a file breaks."""
    tree, where = ast.parse(text), layer(path)
    package = ".".join(("covpool", *path.relative_to(SOURCE).parts[:-1]))
    found = [f"imports {name}" for name in _imports(tree, package) if not _may_import(where, name)]
    for name in sorted(set(_names(tree))):
        if (
            (where != "kernels" and name.startswith(CUSTOM_OPERATIONS))
            or (where != "ops" and name.endswith("autograd.Function"))
            or (where not in WITH_OUTSIDE_WORLD and (name in OUTSIDE_WORLD or name.endswith(FILE_METHODS)))
        ):
            found.append(f"uses {name}")
    if where not in WITH_MODULES:
        found += [f"defines the nn.Module {name}" for name in _modules(tree)]
    return found


def _may_import(where: str, name: str) -> bool:
    top, _, rest = name.partition(".")
    if top == "covpool":
        part = rest.split(".")[0]
        reached = part if part in ORDER else "covpool"
        return where in ("covpool", reached) or ORDER.index(reached) < ORDER.index(where)
    if top in ("triton", "ctypes"):
        return where == "kernels"
    return where not in CORE or top == "torch" or top in sys.stdlib_module_names


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes except those under `if TYPE_CHECKING:`, which is never executed."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        yield child
        yield from _nodes(child)


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    """The full name of every module or name that a file of `package` imports."""
    for node in _nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            start = ".".join(parents[: len(parents) - node.level + 1]) if node.level else None
            module = ".".join(filter(None, (start, node.module)))
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "require", "__import__")):
            yield from (str(a.value) for a in node.args[:1] if isinstance(a, ast.Constant))


def _names(tree: ast.AST) -> Iterator[str]:
    """The full name of every name and attribute used."""
    aliases = _aliases(tree)
    for node in _nodes(tree):
        if isinstance(node, (ast.Name, ast.Attribute)):
            yield _in_full(node, aliases)


def _modules(tree: ast.AST) -> Iterator[str]:
    """The classes that derive from a class of torch.nn or from Pool."""
    aliases = _aliases(tree)
    for node in _nodes(tree):
        if isinstance(node, ast.ClassDef):
            bases = [_in_full(base, aliases) for base in node.bases]
            if any(base.startswith("torch.nn.") or base.split(".")[-1] in ("Module", "Pool") for base in bases):
                yield node.name


def _aliases(tree: ast.AST) -> dict[str, str]:
    """The names that imports define, with the full names they stand for."""
    found: dict[str, str] = {}
    for node in _nodes(tree):
        if isinstance(node, ast.Import):
            found |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return found


def _in_full(node: ast.expr, aliases: dict[str, str]) -> str:
    """A dotted name whose first part is replaced by the full name of its import."""
    head, dot, rest = ast.unparse(node).partition(".")
    return aliases.get(head, head) + dot + rest


def private_imports(path: Path, text: str) -> list[str]:
    """Imports of what another package keeps to itself.

    No file imports a module or name of another package that starts with an underscore. A file of the application
    imports from another package only what the `__init__` of that package or sub-package exports.
    """
    tree, where = ast.parse(text), layer(path)
    found = []
    for name in _imports(tree, ".".join(("covpool", *path.relative_to(SOURCE).parts[:-1]))):
        top, *inside = name.split(".")
        if top != "covpool" or len(inside) < 2 or inside[0] == where or (SOURCE / f"{inside[0]}.py").exists():
            continue
        private = any(part.startswith("_") for part in inside[1:])
        if private or (where in APPLICATION and not _is_exported(SOURCE.joinpath(*inside))):
            found.append(name)
    return found


def _is_exported(path: Path) -> bool:
    """Whether the package at `path.parent` exports the name, or the name is a sub-package of it."""
    package = path.parent / "__init__.py"
    return (path / "__init__.py").exists() or (package.exists() and path.name in exported(package.read_text()))


def exported(text: str) -> set[str]:
    """The names that an `__init__` exports: what it defines, imports as itself or lists in `__all__`."""
    found: set[str] = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names if alias.asname == alias.name}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            found |= set(ast.literal_eval(node.value))
    return {name for name in found if not name.startswith("_")}

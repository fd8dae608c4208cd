import re

from agentctx import errors


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    """Yield a line per class: depth, name and code."""
    drawn: list[tuple[str, str, str]] = []
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.fullmatch(r"(?P<indent>[│├└─ ]*)(?P<name>\w+) +(?P<code>[a-z_]+)", line):
            depth = len(found["indent"]) // 4
            above[depth:] = [found["name"]]
            drawn.append((above[depth - 1] if depth else "Exception", found["name"], found["code"]))
    classes = [each for each in vars(errors).values() if isinstance(each, type)]
    real = [
        (each.__bases__[0].__name__, each.__name__, each.code)
        for each in classes
        if issubclass(each, errors.AgentctxError)
    ]
    assert sorted(drawn) == sorted(real)

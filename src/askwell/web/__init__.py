"""The labelling page and its API: `create_app` makes both over an open session."""

try:
    from askwell.web.app import create_app
except ModuleNotFoundError as missing:
    if (missing.name or "").startswith("askwell"):
        raise
    raise ImportError(f"the labelling page needs {missing.name}: pip install 'askwell[web]'.") from missing

__all__ = ["create_app"]

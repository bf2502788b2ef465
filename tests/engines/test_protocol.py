import pytest

from askwell.engines import Engine, Local, Serial, as_engine


def test_engines_by_name():
    assert as_engine("serial") == as_engine(None) == Serial()
    assert as_engine("local") == Local()
    assert as_engine("local:3") == Local(3)
    own = Local(2)
    assert as_engine(own) is own
    assert isinstance(own, Engine)


@pytest.mark.parametrize("engine", ["", "locale", "local:0", "local:x", 7])
def test_what_is_no_engine_is_refused(engine):
    with pytest.raises(ValueError, match=r"engine must be 'serial', 'local'"):
        as_engine(engine)

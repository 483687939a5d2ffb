"""A key holder's memory of a run: hops in their one order, again after a kill, and no others."""

from __future__ import annotations

import stat

import pytest

from he_chain.errors import ProtocolError
from he_chain.roles.session import load_session, new_session
from he_chain.wire import NO_LAYER


def walk(session, hops):
    for position, layer in hops:
        session = session.begin(position, layer).finish()
    return session


def test_a_hop_has_to_be_answered_before_the_next():
    session = new_session([5], max_positions=1, num_layers=2).begin(0, 0)
    assert session.begin(0, 0) is session
    with pytest.raises(ProtocolError, match="not due"):
        session.begin(0, 1)
    assert session.finish().begin(0, 1).layer == 1


def test_hops_in_their_order():
    session = new_session([5, 6], max_positions=3, num_layers=2)
    session = walk(session, [(0, 0), (0, 1), (1, 0), (1, 1), (1, NO_LAYER)])
    session = session.with_token(7)
    assert session.ids == (5, 6, 7)
    assert session.with_token(8) is session
    session = walk(session, [(2, 0), (2, 1), (2, NO_LAYER)])
    assert session.with_token(9) is session
    with pytest.raises(ProtocolError, match="not due"):
        session.begin(3, 0)


def test_logits_inside_the_prompt_are_allowed():
    session = walk(new_session([5, 6], max_positions=2, num_layers=1), [(0, 0), (0, NO_LAYER)])
    assert session.with_token(9) is session
    assert session.begin(1, 0).position == 1


@pytest.mark.parametrize("hop", [(0, 0), (0, 2), (0, NO_LAYER), (1, 0), (1, 1), (2, 0)])
def test_hops_that_are_not_due(hop):
    session = walk(new_session([5, 6, 7], max_positions=3, num_layers=3), [(0, 0), (0, 1), (0, 2)])
    if hop in {(0, 2), (0, NO_LAYER), (1, 0)}:
        session.begin(*hop)
        return
    with pytest.raises(ProtocolError, match="not due"):
        session.begin(*hop)


def test_a_position_without_a_token_is_refused():
    session = walk(new_session([5], max_positions=3, num_layers=1), [(0, 0), (0, NO_LAYER)])
    with pytest.raises(ProtocolError, match="no token"):
        session.begin(1, 0)


def test_a_run_begins_at_the_beginning():
    session = new_session([5], max_positions=1, num_layers=2)
    for hop in [(0, 1), (0, NO_LAYER), (1, 0)]:
        with pytest.raises(ProtocolError):
            session.begin(*hop)


def test_it_survives_in_a_private_file(tmp_path):
    session = new_session([5, 6], max_positions=9, num_layers=2)
    for hop in [None, (0, 0), (0, 1), (0, NO_LAYER)]:
        session = session if hop is None else session.begin(*hop)
        for state in (session, session.finish()):
            state.save(tmp_path)
            assert load_session(tmp_path) == state
        session = session.finish()
    assert stat.S_IMODE((tmp_path / "session.cbor").stat().st_mode) == 0o600


def test_what_is_no_session(tmp_path):
    for ids, most in [([], 1), ([1, 2], 1), ([1], 5000)]:
        with pytest.raises(ProtocolError):
            new_session(ids, max_positions=most, num_layers=1)
    (tmp_path / "session.cbor").write_bytes(b"\xa0")
    with pytest.raises(ProtocolError, match="damaged"):
        load_session(tmp_path)

"""The contract is worth what it catches: stores that each break one promise, and the test that says so."""

import inspect
from dataclasses import replace

import pytest

from agentflex_nb.core.errors import AgentFlexError
from agentflex_nb.store.memory import MemoryStore
from agentflex_nb.testing.store_contract import StoreContract


class LastSaverWins(MemoryStore):
    def commit(self, turn, events, *, expected, reserved, results=()):
        stored = self.load(turn.id)
        super().commit(turn, events, expected=stored.turn.version if stored else -1, reserved=reserved, results=results)


class WritesBeforeItLooks(MemoryStore):
    def commit(self, turn, events, *, expected, reserved, results=()):
        if turn.id in self._records:
            self._records[turn.id].add(events, reserved)
            events = ()
        super().commit(turn, events, expected=expected, reserved=reserved, results=results)


class ForgetsTheFlag(MemoryStore):
    def commit(self, turn, events, *, expected, reserved, results=()):
        super().commit(turn, events, expected=expected, reserved=reserved, results=results)
        self._records[turn.id].cancel_requested = False


class RaisesTheFlagTwice(MemoryStore):
    def request_cancel(self, turn_id):
        super().request_cancel(turn_id)
        return True


class TakesNumbersBack(MemoryStore):
    def append(self, turn_id, events, *, reserved):
        super().append(turn_id, events, reserved=reserved)
        self._records[turn_id].reserved = reserved


class LosesTheOrder(MemoryStore):
    def events(self, turn_id, *, after=0):
        return super().events(turn_id, after=after)[::-1]


class CountsAfterWrongly(MemoryStore):
    def events(self, turn_id, *, after=0):
        return super().events(turn_id, after=after - 1) if after else super().events(turn_id)


class AdmitsASecondTurn(MemoryStore):
    def commit(self, turn, events, *, expected, reserved, results=()):
        self._active.clear()
        super().commit(turn, events, expected=expected, reserved=reserved, results=results)


class ProjectsEverySave(MemoryStore):
    def commit(self, turn, events, *, expected, reserved, results=()):
        super().commit(turn, events, expected=expected, reserved=reserved, results=results)
        self.remember(turn.identity.conversation_id or "", turn.own_messages)


class FindsTheYoungestFirst(MemoryStore):
    def find(self, statuses):
        return super().find(statuses)[::-1]


class ForgetsMetadata(MemoryStore):
    def load(self, turn_id):
        stored = super().load(turn_id)
        return stored and replace(
            stored, turn=replace(stored.turn, identity=replace(stored.turn.identity, metadata={}, streaming=True))
        )


class KeepsTheFirstInstructions(MemoryStore):
    def load(self, turn_id):
        stored = super().load(turn_id)
        return stored and replace(
            stored, turn=replace(stored.turn, identity=replace(stored.turn.identity, instructions="Be brief."))
        )


class ForgetsWhatItWaitsFor(MemoryStore):
    def load(self, turn_id):
        stored = super().load(turn_id)
        return stored and replace(stored, turn=replace(stored.turn, suspension=None))


class LoadsHalfACommit(MemoryStore):
    def load(self, turn_id):
        stored = super().load(turn_id)
        return stored and replace(stored, turn=replace(stored.turn, messages=stored.turn.messages[:2]))


class LosesResults(MemoryStore):
    def commit(self, turn, events, *, expected, reserved, results=()):
        super().commit(turn, events, expected=expected, reserved=reserved)


class KeepsResultsBeforeItLooks(MemoryStore):
    def commit(self, turn, events, *, expected, reserved, results=()):
        self._results.update(results)
        super().commit(turn, events, expected=expected, reserved=reserved)


class StaysOpen(MemoryStore):
    def close(self):
        pass


CAUGHT = {
    LastSaverWins: "test_a_stale_save_is_a_conflict_and_changes_nothing",
    WritesBeforeItLooks: "test_a_stale_save_is_a_conflict_and_changes_nothing",
    ForgetsTheFlag: "test_the_cancel_flag_survives_savers_who_do_not_know_of_it",
    RaisesTheFlagTwice: "test_the_cancel_flag_goes_up_once",
    TakesNumbersBack: "test_numbers_set_aside_stay_set_aside",
    LosesTheOrder: "test_events_are_kept_in_order_with_their_data",
    CountsAfterWrongly: "test_events_after_a_number_are_those_above_it",
    AdmitsASecondTurn: "test_a_conversation_with_an_active_turn_refuses_a_second",
    ProjectsEverySave: "test_a_turn_that_ends_is_projected_once",
    FindsTheYoungestFirst: "test_turns_are_found_by_status_oldest_first",
    ForgetsMetadata: "test_policy_streaming_and_metadata_of_a_turn_survive",
    KeepsTheFirstInstructions: "test_a_migrated_turn_comes_back_with_its_new_version_and_instructions",
    ForgetsWhatItWaitsFor: "test_what_is_loaded_equals_what_was_saved",
    LoadsHalfACommit: "test_a_reader_never_sees_half_a_commit",
    LosesResults: "test_a_whole_result_is_saved_with_its_text",
    KeepsResultsBeforeItLooks: "test_a_result_that_lost_a_race_is_not_saved",
    StaysOpen: "test_a_closed_store_says_so",
}


def run(store_class, test, tmp_path):
    """One test of the contract over this kind of store."""
    contract = type("Contract", (StoreContract,), {"open": lambda self, folder: store_class()})()
    method, known = getattr(contract, test), {"store": store_class(), "tmp_path": tmp_path}
    method(**{name: known[name] for name in inspect.signature(method).parameters})


@pytest.mark.parametrize(("store_class", "test"), CAUGHT.items(), ids=lambda part: getattr(part, "__name__", ""))
def test_a_store_that_breaks_a_promise_is_caught(store_class, test, tmp_path):
    run(MemoryStore, test, tmp_path)  # nothing to be caught here

    with pytest.raises((AssertionError, pytest.fail.Exception, AgentFlexError)):
        run(store_class, test, tmp_path)


def test_a_contract_without_a_store_says_what_is_missing(tmp_path):
    with pytest.raises(NotImplementedError, match="how the store is opened"):
        StoreContract().open(tmp_path)

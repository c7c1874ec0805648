"""The promises of a store, as tests that any store must pass. A store's own test file is a factory and little more:

class TestMyStore(StoreContract):
    def open(self, folder):
        return MyStore(folder / "turns")
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from threading import Barrier

import pytest

from ..core.advance import advance, open_turn
from ..core.agent import AgentDefinition, AgentExecutionPolicy, ToolDefinition
from ..core.errors import AgentFlexError, ConversationBusyError, StoreError, TurnNotFoundError, VersionConflictError
from ..core.events import AgentEvent, EventType
from ..core.frozen import EMPTY, FrozenDict, freeze
from ..core.inputs import AgentResumeCommand, CallsChecked, Cancel, Input, Migrate, ModelReplied, Proceed, ToolReturned
from ..core.machine import AgentPhase, AgentStatus, SuspensionType
from ..core.messages import Message, ToolCall, Usage, assistant, system, user
from ..core.story import Advance
from ..core.turn import AgentSuspension, Question, Turn, TurnIdentity
from ..core.values import PackedValue
from ..core.verdicts import ALLOWED, ToolApprovalDecision, Verdict
from ..runtime.ports import AgentTurnStore, StoredTurn
from ..store.codec import register_message
from .time import START, CountingClock

SHOP = AgentDefinition(
    id="shop",
    version="1",
    name="shop",
    instructions="Be brief.",
    tools=(ToolDefinition(name="refund", description="Give money back.", parameters=EMPTY, guarded=True),),
)
ANSWER = ModelReplied(message=assistant("Done."), usage=Usage(input_tokens=10, output_tokens=2))
REFUND = ModelReplied(
    message=assistant(tool_calls=(ToolCall(id="", name="refund", arguments=freeze({"order": "O-1", "amount": 60.5})),))
)
ASK = ToolApprovalDecision.require_approval("over 50", ticket=7)


class Tale:
    """A turn of the shop, played through the core and saved as a runner saves it."""

    def __init__(
        self,
        store: AgentTurnStore,
        turn_id: str = "t1",
        *,
        conversation_id: str | None = None,
        attached: Sequence[Message] = (),
        created_at: datetime = START,
        policy: AgentExecutionPolicy = SHOP.execution_policy,
        streaming: bool = True,
        metadata: FrozenDict = EMPTY,
    ) -> None:
        self.store, self.clock = store, CountingClock()
        self.events: list[AgentEvent] = []
        """Those that are saved."""
        self.unsaved: list[AgentEvent] = []
        identity = TurnIdentity(
            id=turn_id,
            root_turn_id=turn_id,
            conversation_id=conversation_id,
            agent_id=SHOP.id,
            agent_version=SHOP.version,
            created_at=created_at,
            instructions=SHOP.instructions,
            policy=policy,
            streaming=streaming,
            metadata=metadata,
            attached=len(attached),
        )
        self._take(open_turn(SHOP, identity, (*attached, user(f"hello from {turn_id}")), self.clock()))

    def say(self, *inputs: Input) -> "Tale":
        """Go on with these inputs."""
        for said in inputs:
            self._take(advance(SHOP, self.turn, said, self.clock()))
        return self

    def call(self, verdict: Verdict = ALLOWED) -> "Tale":
        """Go on until the model has asked for a refund and the agent's code has judged it, twice where it allows it."""
        self.say(Proceed(), REFUND)
        while self.turn.pending and not (self.turn.pending[0].started or self.turn.questions):
            self.say(CallsChecked({self.turn.pending[0].call.id: verdict}))
        return self

    def step(self) -> "Tale":
        """One whole step: the model asks for a refund, and the tool gives it."""
        self.call()
        return self.say(ToolReturned(self.turn.pending[0].call.id, f"refunded in step {self.turn.step_count}"))

    def finish(self) -> "Tale":
        """Go on until the turn is completed."""
        return self.say(Proceed(), ANSWER)

    def _take(self, result: Advance) -> None:
        self.turn = result.turn
        self.unsaved += result.events
        if result.commits:
            now = self.turn.version - 1
            self.store.commit(
                self.turn, self.unsaved, expected=now, reserved=self.turn.sequence + 100, results=result.kept
            )
            self.events += self.unsaved
            self.unsaved = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Postcard(Message):
    """A message with more to it than the core knows."""

    stamp: str = ""
    read_at: datetime | None = None


register_message("test.postcard", Postcard)


def waiting(turn: Turn, status: AgentStatus, type: SuspensionType) -> Turn:
    """The turn as it would wait for such a thing, one version on."""
    question = Question(
        id="q1", type=type, message="well?", schema=freeze({"type": "object"}), metadata=freeze({"a": 1})
    )
    suspension = AgentSuspension(questions=(question, replace(question, id="q2")), resume_phase=AgentPhase.TOOLS)
    return replace(turn, status=status, suspension=suspension, version=turn.version + 1)


WAITS = [
    (AgentStatus.WAITING_FOR_USER, SuspensionType.USER_INPUT),
    (AgentStatus.WAITING_FOR_APPROVAL, SuspensionType.TOOL_APPROVAL),
    (AgentStatus.WAITING_FOR_CHILD, SuspensionType.CHILD_AGENT),
    (AgentStatus.WAITING_FOR_EXTERNAL_TOOL, SuspensionType.EXTERNAL_TOOL),
    (AgentStatus.WAITING_FOR_MODEL, SuspensionType.MODEL),
    (AgentStatus.RETRY_SCHEDULED, SuspensionType.RETRY),
]


class StoreContract:
    """What every store promises. Derive from it, and say how a store is opened."""

    def open(self, folder: Path) -> AgentTurnStore:
        """A store that keeps what it keeps in this folder, which is empty when a test begins."""
        raise NotImplementedError("a store's test class says how the store is opened")

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[AgentTurnStore]:
        """An empty store; closed when the test is over."""
        store = self.open(tmp_path)
        yield store
        store.close()

    # -- saving and loading --------------------------------------------------------------------------------------------

    def test_an_unknown_turn_is_none(self, store: AgentTurnStore) -> None:
        assert store.load("nobody") is None
        assert store.events("nobody") == []
        assert not store.is_cancel_requested("nobody")

    def test_what_is_loaded_equals_what_was_saved(self, store: AgentTurnStore) -> None:
        """I4, P6, P19."""
        tale = Tale(store)
        for go_on in (tale.step, lambda: tale.call(ASK)):
            go_on()

            assert loaded(store).turn == tale.turn
        answer = AgentResumeCommand.approve_tool(tale.turn.questions[0].id, by="alice", why={"ticket": [1, 2.5, None]})
        tale.say(answer, Proceed(), CallsChecked({tale.turn.pending[0].call.id: ALLOWED}))
        assert loaded(store).turn == tale.turn
        tale.say(ToolReturned(tale.turn.pending[0].call.id, "übergeben \U0001f4b6")).finish()
        assert loaded(store).turn == tale.turn
        assert loaded(store).turn.answers[0].by == "alice"

    def test_the_first_save_yields_version_0_and_each_save_adds_one(self, store: AgentTurnStore) -> None:
        """P1."""
        tale = Tale(store)

        assert loaded(store).turn.version == 0
        tale.step()
        assert loaded(store).turn.version == tale.turn.version == 2

    def test_a_first_save_of_a_known_turn_is_a_conflict(self, store: AgentTurnStore) -> None:
        """P1."""
        Tale(store).step()

        with pytest.raises(VersionConflictError) as conflict:
            Tale(store)

        assert (conflict.value.turn_id, conflict.value.expected, conflict.value.found) == ("t1", -1, 2)

    def test_a_later_save_of_an_unknown_turn_is_a_conflict(self, store: AgentTurnStore) -> None:
        """P1."""
        with pytest.raises(VersionConflictError) as conflict:
            store.commit(replace(a_turn(), version=4), [], expected=3, reserved=0)

        assert conflict.value.found is None
        assert store.load("t1") is None

    def test_a_stale_save_is_a_conflict_and_changes_nothing(self, store: AgentTurnStore) -> None:
        """P2."""
        tale = Tale(store, conversation_id="c1")
        stale = replace(tale.turn, version=1, status=AgentStatus.FAILED, messages=(*tale.turn.messages, user("lost")))
        tale.step()
        before = loaded(store), store.events("t1")

        with pytest.raises(VersionConflictError) as conflict:
            store.commit(stale, [told(9_000)], expected=0, reserved=9_999)

        assert (conflict.value.expected, conflict.value.found) == (0, 2)
        assert (loaded(store), store.events("t1")) == before
        assert store.conversation("c1") == []
        assert tale.finish().turn == loaded(store).turn

    def test_each_save_stands_when_the_next_one_is_made_from_it(self, store: AgentTurnStore) -> None:
        """P3."""
        tale = Tale(store)
        first = loaded(store)

        tale.step().finish()

        assert first.turn.version == 0
        assert first.turn.messages == (user("hello from t1"),)

    @pytest.mark.parametrize(("status", "type"), WAITS)
    def test_every_way_to_wait_survives(self, store: AgentTurnStore, status: AgentStatus, type: SuspensionType) -> None:
        """P7."""
        turn = waiting(Tale(store).turn, status, type)

        store.commit(turn, [], expected=0, reserved=0)

        assert loaded(store).turn == turn
        assert loaded(store).turn.questions[1].id == "q2"

    def test_policy_streaming_and_metadata_of_a_turn_survive(self, store: AgentTurnStore) -> None:
        """P8."""
        policy = AgentExecutionPolicy(max_iterations=0, max_steps=3)
        metadata = freeze({"tags": ["a", {"b": None}], "weight": 0.1, "big": 2**70})

        Tale(store, policy=policy, streaming=False, metadata=metadata)

        kept = loaded(store).turn.identity
        assert (kept.policy, kept.streaming, kept.metadata) == (policy, False, metadata)
        with pytest.raises(TypeError):
            kept.metadata["tags"] = ()

    def test_a_migrated_turn_comes_back_with_its_new_version_and_instructions(self, store: AgentTurnStore) -> None:
        """P11, P19."""
        tale = Tale(store)
        tale.say(Migrate(agent_version="2", definition_hash="h", instructions="Be kind.")).step()

        assert loaded(store).turn == tale.turn
        assert loaded(store).turn.identity.instructions == "Be kind."
        assert [event.agent_version for event in store.events("t1")[:2]] == ["1", "2"]
        assert store.find([AgentStatus.RUNNING])[0].turn == tale.turn

    def test_a_registered_kind_of_message_survives(self, store: AgentTurnStore) -> None:
        """P10."""
        card = Postcard(role=user("").role, content="from the sea", stamp="1 €", read_at=START)

        Tale(store, attached=[card])

        assert loaded(store).turn.messages[0] == card
        assert type(loaded(store).turn.messages[0]) is Postcard

    def test_equal_messages_in_one_turn_stay_two(self, store: AgentTurnStore) -> None:
        tale = Tale(store, attached=[user("again"), user("again"), system("again")])

        assert loaded(store).turn.messages == tale.turn.messages

    # -- results -------------------------------------------------------------------------------------------------------

    def test_a_whole_result_is_saved_with_its_text(self, store: AgentTurnStore) -> None:
        """T14, P5."""
        whole = PackedValue("application/octet-stream", b"\x00\xff" * 50_000)
        tale = Tale(store).call()
        call_id = tale.turn.pending[0].call.id
        assert store.result(call_id) is None

        tale.say(ToolReturned(call_id, "100,000 bytes", "bytes", whole)).finish()

        assert store.result(call_id) == whole
        assert store.result("nobody.1.0") is None
        assert loaded(store).turn == tale.turn

    def test_a_result_that_lost_a_race_is_not_saved(self, store: AgentTurnStore) -> None:
        """P2."""
        turn = replace(Tale(store).turn, version=4)

        with pytest.raises(VersionConflictError):
            store.commit(turn, [], expected=3, reserved=0, results=[("t1.1.0", PackedValue("text/plain", b"lost"))])

        assert store.result("t1.1.0") is None

    def test_what_can_be_packed_comes_back(self, store: AgentTurnStore) -> None:
        """T14."""
        for value in ("text", b"bytes", {"a": [1, None, "\u00fc"]}):
            packed = store.pack(value)
            assert packed is not None
            assert store.unpack(packed) == value
        assert store.pack(object()) is None

    # -- events --------------------------------------------------------------------------------------------------------

    def test_events_are_kept_in_order_with_their_data(self, store: AgentTurnStore) -> None:
        tale = Tale(store).step().finish()

        assert store.events("t1") == tale.events
        assert [event.sequence for event in tale.events] == list(range(1, tale.turn.sequence + 1))

    def test_events_after_a_number_are_those_above_it(self, store: AgentTurnStore) -> None:
        """E3."""
        tale = Tale(store).step()

        for after in range(tale.turn.sequence + 2):
            assert store.events("t1", after=after) == [event for event in tale.events if event.sequence > after]

    def test_events_alone_change_no_version(self, store: AgentTurnStore) -> None:
        """E28."""
        tale = Tale(store)

        store.append("t1", [told(2), told(3)], reserved=50)

        kept = loaded(store)
        assert (kept.turn, kept.logged) == (tale.turn, 3)
        assert store.events("t1", after=1) == [told(2), told(3)]

    def test_events_of_an_unknown_turn_are_refused(self, store: AgentTurnStore) -> None:
        with pytest.raises(TurnNotFoundError):
            store.append("nobody", [told(1)], reserved=1)

    def test_numbers_set_aside_stay_set_aside(self, store: AgentTurnStore) -> None:
        """E4: the highest number ever reserved, and the highest ever logged, are what recovery starts above."""
        tale = Tale(store)
        assert (loaded(store).reserved, loaded(store).logged) == (101, 1)

        store.append("t1", [told(40)], reserved=500)
        store.append("t1", [], reserved=7)
        assert (loaded(store).reserved, loaded(store).logged) == (500, 40)

        store.commit(replace(tale.turn, version=1), [], expected=0, reserved=60)
        assert (loaded(store).reserved, loaded(store).logged) == (500, 40)

    def test_a_log_has_no_hole_where_something_else_was_saved(self, store: AgentTurnStore) -> None:
        """E3: a cancel request, numbers set aside and a save without events stand between events."""
        tale = Tale(store)
        store.append("t1", [told(2)], reserved=0)
        store.request_cancel("t1")
        store.append("t1", [], reserved=9)
        store.commit(replace(tale.turn, version=1), [], expected=0, reserved=0)
        store.append("t1", [told(3), told(4)], reserved=0)

        for after in range(6):
            expected = [*tale.events, told(2), told(3), told(4)][after:]
            assert store.events("t1", after=after) == expected

    def test_turns_do_not_share_their_logs(self, store: AgentTurnStore) -> None:
        """E3."""
        one, other = Tale(store, "t1"), Tale(store, "t2").step()
        one.finish()

        assert store.events("t1") == one.events
        assert store.events("t2") == other.events

    # -- the cancel flag -----------------------------------------------------------------------------------------------

    def test_the_cancel_flag_goes_up_once(self, store: AgentTurnStore) -> None:
        """P13."""
        Tale(store)
        assert not store.is_cancel_requested("t1")

        assert store.request_cancel("t1") is True
        assert store.request_cancel("t1") is False

        assert store.is_cancel_requested("t1")
        assert loaded(store).cancel_requested

    def test_the_cancel_flag_survives_savers_who_do_not_know_of_it(self, store: AgentTurnStore) -> None:
        """P13, Z9."""
        tale = Tale(store)
        store.request_cancel("t1")

        tale.step()
        store.append("t1", [told(90)], reserved=99)
        with pytest.raises(VersionConflictError):
            store.commit(replace(tale.turn, version=1), [], expected=0, reserved=0)

        assert store.is_cancel_requested("t1")
        assert loaded(store).cancel_requested

    def test_a_cancel_request_is_no_new_version(self, store: AgentTurnStore) -> None:
        tale = Tale(store)

        store.request_cancel("t1")

        assert loaded(store).turn == tale.turn
        assert tale.say(Cancel(reason="enough")).turn == loaded(store).turn

    def test_cancelling_an_unknown_turn_is_an_error(self, store: AgentTurnStore) -> None:
        with pytest.raises(TurnNotFoundError):
            store.request_cancel("nobody")

    # -- finding -------------------------------------------------------------------------------------------------------

    def test_turns_are_found_by_status_oldest_first(self, store: AgentTurnStore) -> None:
        clock = CountingClock()
        first, second, third = clock(), clock(), clock()
        Tale(store, "young", created_at=third).call(ASK)
        Tale(store, "old", created_at=first).call(ASK)
        Tale(store, "done", created_at=second).finish()
        Tale(store, "new", created_at=second)

        found = store.find([AgentStatus.READY, AgentStatus.WAITING_FOR_APPROVAL])

        assert [stored.turn.id for stored in found] == ["old", "new", "young"]
        assert found[0] == loaded(store, "old")
        assert store.find([AgentStatus.FAILED]) == store.find([]) == []

    # -- conversations -------------------------------------------------------------------------------------------------

    def test_a_conversation_with_an_active_turn_refuses_a_second(self, store: AgentTurnStore) -> None:
        """V3."""
        Tale(store, "t1", conversation_id="c1").call(ASK)

        with pytest.raises(ConversationBusyError) as busy:
            Tale(store, "t2", conversation_id="c1")

        assert (busy.value.conversation_id, busy.value.active_turn_ids) == ("c1", ("t1",))
        assert store.load("t2") is None
        assert store.active_turns("c1") == ["t1"]
        Tale(store, "t3", conversation_id="c2")
        Tale(store, "t4")

    @pytest.mark.parametrize("ending", [ANSWER, Cancel()])
    def test_a_turn_that_ends_frees_its_conversation(self, store: AgentTurnStore, ending: Input) -> None:
        """V3, I5."""
        Tale(store, "t1", conversation_id="c1").say(*([Proceed(), ANSWER] if ending is ANSWER else [ending]))

        assert store.active_turns("c1") == []
        Tale(store, "t2", conversation_id="c1")
        assert store.active_turns("c1") == ["t2"]

    def test_a_turn_that_ends_is_projected_once(self, store: AgentTurnStore) -> None:
        """V5: its own messages, in order, after those of the turns before it."""
        one = Tale(store, "t1", conversation_id="c1").step()
        assert store.conversation("c1") == []
        one.finish()
        history = [message for _, message in store.conversation("c1")]
        assert history == list(one.turn.messages)

        two = Tale(store, "t2", conversation_id="c1", attached=history).finish()
        again = replace(two.turn, version=two.turn.version + 1)
        store.commit(again, [], expected=two.turn.version, reserved=0)

        assert store.conversation("c1") == [
            *(("t1", message) for message in one.turn.messages),
            *(("t2", message) for message in two.turn.own_messages),
        ]
        assert store.conversation("elsewhere") == []

    def test_messages_from_outside_stand_between_those_of_turns(self, store: AgentTurnStore) -> None:
        store.remember("c1", [user("before"), assistant("hm")])
        turn = Tale(store, "t1", conversation_id="c1").finish().turn
        store.remember("c1", [user("before")])

        assert store.conversation("c1") == [
            (None, user("before")),
            (None, assistant("hm")),
            *(("t1", message) for message in turn.messages),
            (None, user("before")),
        ]

    # -- many at a time ------------------------------------------------------------------------------------------------

    def test_of_many_savers_of_one_version_one_wins(self, store: AgentTurnStore) -> None:
        """A9: wins are versions, whoever races."""
        start, turn = Tale(store).turn, 0
        threads, each = 6, 15

        def race(_: int) -> int:
            wins = 0
            for _ in range(each):
                stored = loaded(store)
                version = stored.turn.version + 1
                try:
                    store.commit(
                        replace(stored.turn, version=version), [told(version + 1)], expected=version - 1, reserved=0
                    )
                    wins += 1
                except VersionConflictError:
                    pass
            return wins

        with ThreadPoolExecutor(threads) as pool:
            turn = sum(pool.map(race, range(threads)))

        assert loaded(store).turn == replace(start, version=turn)
        assert [event.sequence for event in store.events("t1")] == list(range(1, turn + 2))

    def test_of_many_first_turns_of_a_conversation_one_wins(self, store: AgentTurnStore) -> None:
        """V3."""
        gate = Barrier(6)

        def race(n: int) -> type[AgentFlexError] | None:
            gate.wait()
            try:
                Tale(store, f"t{n}", conversation_id="c1")
            except ConversationBusyError as busy:
                return type(busy)
            return None

        with ThreadPoolExecutor(6) as pool:
            outcomes = list(pool.map(race, range(6)))

        assert outcomes.count(None) == 1
        assert store.active_turns("c1") == [f"t{outcomes.index(None)}"]

    def test_many_turns_at_a_time_keep_what_each_saved(self, store: AgentTurnStore) -> None:
        """E3."""

        def play(n: int) -> Tale:
            return Tale(store, f"t{n}", conversation_id=f"c{n % 3}" if n < 3 else None).step().step().finish()

        with ThreadPoolExecutor(8) as pool:
            tales = list(pool.map(play, range(24)))

        for tale in tales:
            assert loaded(store, tale.turn.id).turn == tale.turn
            assert store.events(tale.turn.id) == tale.events

    def test_a_reader_never_sees_half_a_commit(self, store: AgentTurnStore) -> None:
        """As many messages as the version says, whenever one looks."""
        tale = Tale(store)

        def look(_: int) -> list[tuple[int, int, int]]:
            seen: list[tuple[int, int, int]] = []
            while not seen or seen[-1][0] < 30:
                stored = loaded(store)
                seen.append((stored.turn.version, len(stored.turn.messages), stored.turn.sequence - stored.logged))
            return seen

        with ThreadPoolExecutor(2) as pool:
            looks = [pool.submit(look, n) for n in range(2)]
            for version in range(1, 31):
                turn = replace(
                    tale.turn, version=version, sequence=version + 1, messages=(*tale.turn.messages, user(f"{version}"))
                )
                store.commit(turn, [told(version + 1)], expected=version - 1, reserved=0)
                tale.turn = turn

        for seen in looks:
            assert all(messages == version + 1 and gap == 0 for version, messages, gap in seen.result())

    # -- closing -------------------------------------------------------------------------------------------------------

    def test_a_closed_store_says_so(self, tmp_path: Path) -> None:
        store = self.open(tmp_path)
        Tale(store)

        store.close()
        store.close()

        with pytest.raises(StoreError, match="closed"):
            store.load("t1")
        with pytest.raises(StoreError, match="closed"):
            Tale(store, "t2")


class KeptStoreContract(StoreContract):
    """What a store promises beyond that, if it keeps turns for longer than its process."""

    def test_everything_is_there_when_it_is_opened_again(self, tmp_path: Path) -> None:
        """A10, E4, P13."""
        store = self.open(tmp_path)
        waits = Tale(store, "t1", conversation_id="c1", metadata=freeze({"a": [1]})).call(ASK)
        ended = Tale(store, "t2", conversation_id="c2").step().finish()
        store.remember("c2", [user("later")])
        store.append("t1", [told(77)], reserved=200)
        store.request_cancel("t1")
        before = loaded(store, "t1"), loaded(store, "t2"), store.events("t1"), store.conversation("c2")
        whole = PackedValue("application/octet-stream", bytes(range(256)))
        for id in ("t4", "t5"):
            tale = Tale(store, id).call()
            tale.say(ToolReturned(tale.turn.pending[0].call.id, "256 bytes", "bytes", whole))
        tale.finish()
        store.close()

        store = self.open(tmp_path)

        assert (loaded(store, "t1"), loaded(store, "t2"), store.events("t1"), store.conversation("c2")) == before
        assert (loaded(store, "t1").turn, loaded(store, "t2").turn) == (waits.turn, ended.turn)
        assert store.active_turns("c1") == ["t1"]
        assert [store.result(f"{id}.1.0") for id in ("t4", "t5")] == [whole, whole]
        with pytest.raises(ConversationBusyError):
            Tale(store, "t3", conversation_id="c1")
        waits.store = store
        waits.say(AgentResumeCommand.approve_tool(waits.turn.questions[0].id))
        assert loaded(store, "t1").turn == waits.turn
        store.close()


def loaded(store: AgentTurnStore, turn_id: str = "t1") -> StoredTurn:
    """The turn, which must be there."""
    stored = store.load(turn_id)
    assert stored is not None, f"turn {turn_id} is not stored"
    return stored


def told(sequence: int) -> AgentEvent:
    """An event of the shop's first turn."""
    return AgentEvent(
        turn_id="t1",
        root_turn_id="t1",
        parent_turn_id=None,
        agent_id=SHOP.id,
        agent_version=SHOP.version,
        sequence=sequence,
        type=EventType.TOOL_PROGRESS,
        occurred_at=START,
        data=FrozenDict(status="RUNNING", message="half way", rows=({"n": 1.5},)),
    )


def a_turn() -> Turn:
    """A turn that no store has seen."""
    policy = AgentExecutionPolicy()
    identity = TurnIdentity(
        id="t1", root_turn_id="t1", agent_id="shop", agent_version="1", created_at=START, policy=policy
    )
    return Turn(identity=identity)

"""Real kernels, stopped, killed, clicked at and run again: K01, K02, K03, K05, K13, K14, K17, K19."""

import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agentflex_nb as af
from agentflex_nb.testing import check

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

SHOP = """
@af.tool(approval=True)
def refund(order: str) -> str:
    "Refund."
    with open("done.txt", "a") as file:
        file.write(order + "\\n")
    return "refunded"

lab = af.Lab("lab.duckdb", user="alice", durability="process")
model = script(script.call("refund", order="O-1"), "Done.")
agent = lab.register(af.Agent("shop", version="1", model=model, tools=[refund]))
"""


def done(folder: Path) -> list[str]:
    """The orders that were refunded."""
    file = folder / "done.txt"
    return file.read_text().split() if file.exists() else []


def promises_hold(folder: Path) -> None:
    """I1 to I7, of everything that the kernels left behind."""
    with af.Lab(folder / "lab.duckdb", display=False) as lab:
        check(lab)


def ok(published) -> str:
    """What a cell printed, if it raised nothing."""
    assert not published.error
    return published.printed


def test_run_works_in_every_kind_of_cell(new_kernel):
    """K01: plain, in a coroutine that is awaited, in a thread, with async tools, and no coroutine is forgotten."""
    kernel = new_kernel(PYTHONWARNINGS="error::RuntimeWarning")
    ok(
        kernel.run("""
@af.tool
def plain() -> str:
    "Work."
    return "plain"

@af.tool
async def later() -> str:
    "Work later."
    await asyncio.sleep(0.01)
    return "later"

@af.tool
async def complain() -> str:
    "Raise what a loop raises."
    raise RuntimeError("This event loop is already running")

lab = af.Lab("lab.duckdb", durability="process", display=False)
agent = af.Agent("a", model=script([script.call("plain"), script.call("later")], "Done."), tools=[plain, later])
""")
    )

    told = ok(
        kernel.run("""
def run(): return lab.run(agent, "hi").output
async def f(): return run()
async def g(): return (await lab.arun(agent, "hi")).output
found = []
thread = threading.Thread(target=lambda: found.append(run())); thread.start(); thread.join()
print(run(), await f(), await g(), *found)
""")
    )
    complained = ok(
        kernel.run("""
turn = lab.run(af.Agent("b", model=script(script.call("complain")), tools=[complain]), "hi")
print(turn.status, turn.error.message, [event.type.value for event in turn.events()].count("TOOL_STARTED"))
""")
    )

    assert told == "Done. Done. Done. Done.\n"
    assert complained == "FAILED This event loop is already running 1\n"


def test_a_cell_that_asks_ends_and_the_next_one_runs(new_kernel, tmp_path):
    """K02: Run All does not stop at a question."""
    kernel = new_kernel()
    ok(kernel.run(SHOP))
    first, second = kernel.begin('turn = lab.run(agent, "go")', cell="a"), kernel.begin("print(turn.status)", cell="b")

    ok(kernel.finish(first))
    assert ok(kernel.finish(second)) == "WAITING_FOR_APPROVAL\n"
    assert done(tmp_path) == []


@pytest.mark.parametrize("shell", ["main", "subshell"])
def test_a_cancel_that_is_clicked_while_the_cell_runs_is_not_lost(new_kernel, shell):
    """K02: a kernel may hand it on at once or when the cell has ended; the turn ends in one of two ways, once."""
    kernel = new_kernel()
    subshell = kernel.subshell() if shell == "subshell" else None
    ok(kernel.run(SHOP))
    ok(
        kernel.run("""
@af.tool
def slow() -> str:
    "Be slow."
    time.sleep(1.5)
    return "slow"
slow_agent = af.Agent("slow", model=script(script.call("slow"), "Done."), tools=[slow])
""")
    )
    cell = kernel.begin('turn = lab.run(slow_agent, "go")')
    shown = kernel.until(lambda published: published.panels)
    kernel.press(shown.panels[0], "cancel", subshell)
    ok(kernel.finish(cell, wait=0.5))

    status, ends = ok(
        kernel.run("""
ends = [e.type.value for e in turn.events() if e.type.value in ("TURN_CANCELLED", "TURN_COMPLETED")]
print(turn.status, ",".join(ends))
""")
    ).split()
    assert (status, ends) in {("CANCELLED", "TURN_CANCELLED"), ("COMPLETED", "TURN_COMPLETED")}


@pytest.mark.parametrize("shell", ["main", "subshell"])
def test_a_click_moves_a_turn_on_while_a_cell_awaits_it(new_kernel, tmp_path, shell):
    """K02: no further cell is needed."""
    kernel = new_kernel()
    subshell = kernel.subshell() if shell == "subshell" else None
    ok(kernel.run(SHOP))
    cell = kernel.begin("""
turn = await lab.arun(agent, "go")
print(turn.status)
until = time.monotonic() + 10
while not turn.status.is_terminal and time.monotonic() < until:
    await asyncio.sleep(0.05)
print(turn.status, turn.text)
""")
    shown = kernel.until(lambda published: "WAITING" in published.printed and published.panels)
    kernel.press(shown.panels[0], "approve", subshell, question=turn_question(shown))

    assert "COMPLETED Done." in ok(kernel.finish(cell))
    assert done(tmp_path) == ["O-1"]


def turn_question(shown) -> str:
    """The one question that a panel was told of."""
    return next(told["question"] for said in shown.of("comm_open") + shown.of("comm_msg") for told in questions(said))


def questions(data: Any) -> Iterator[dict[str, Any]]:
    """Every question in a message, however deep."""
    if isinstance(data, dict):
        yield from data.get("questions") or ()
        for part in data.values():
            yield from questions(part)


def test_a_press_from_any_thread_does_the_same(new_kernel, tmp_path):
    """K02: an answer is carried out in a thread of the lab's own, wherever it came from."""
    kernel = new_kernel()
    ok(kernel.run(SHOP))

    told = ok(
        kernel.run("""
from agentflex_nb.testing import press
turn = lab.run(agent, "go")
thread = threading.Thread(target=press, args=(lab._listener.panel(turn.id), "approve")); thread.start(); thread.join()
until = time.monotonic() + 10
while not turn.status.is_terminal and time.monotonic() < until: time.sleep(0.02)
print(turn.wait(5).status)
""")
    )

    assert told == "COMPLETED\n"
    assert done(tmp_path) == ["O-1"]


def test_a_cell_that_is_run_five_times_is_as_good_as_one_run_once(new_kernel, tmp_path):
    """K03: one row an event, one call of a listener, one effect a click; the old panel answers nothing."""
    kernel = new_kernel()
    cell = f"""{SHOP}
heard = globals().get("heard", [])
def on_event(event): heard.append(event.event_id)
lab.runner.add_event_listener(on_event)
lab.runner.add_event_listener(lambda event: None, key="mine")
turn = lab.run(agent, "go")
"""
    published = [kernel.run(cell, cell="a") for _ in range(5)]
    for each in published:
        ok(each)
    questions = [turn_question(each) for each in published]
    kernel.press(published[0].panels[0], "approve", question=questions[0])
    kernel.press(published[-1].panels[0], "approve", question=questions[-1])
    kernel.press(published[-1].panels[0], "approve", question=questions[-1])

    told = ok(
        kernel.run("""
until = time.monotonic() + 10
while not turn.status.is_terminal and time.monotonic() < until: await asyncio.sleep(0.05)
turn.wait(5)
print(turn.status, len(heard) - len(set(heard)), len(lab.agents()))
print(lab.sql("select turn_id, sequence from events group by all having count(*) > 1").shape[0])
""")
    )
    assert told.endswith("COMPLETED 0 1\n0\n")  # before it, the kernel says that it has no such panel any more
    assert done(tmp_path) == ["O-1"]


@pytest.mark.parametrize("presses", [1, 2])
@pytest.mark.parametrize(
    "cell",
    ['turn = lab.run(agent, "go", conversation_id="c")', 'turn = await lab.arun(agent, "go", conversation_id="c")'],
)
def test_the_stop_button_closes_the_turn_and_the_conversation_goes_on(new_kernel, tmp_path, cell, presses):
    """K05: in a cell that runs and in one that awaits; twice is no worse; a thread that lives on writes nothing."""
    kernel = new_kernel()
    ok(
        kernel.run("""
@af.tool
def quick() -> str:
    "Be quick."
    return "quick"

@af.tool
def slow() -> str:
    "Be slow."
    print("begun", flush=True)
    for n in range(30):
        time.sleep(0.1)
        af.AgentToolContext.current().emit_progress(str(n))
    return "slow"

lab = af.Lab("lab.duckdb", durability="process", display=False)
calls = [script.call("quick"), script.call("slow"), script.call("quick")]
agent = af.Agent("a", model=script(["Half a text ", *calls], "Never."), tools=[quick, slow])
""")
    )
    running = kernel.begin(cell)
    kernel.until(lambda published: "begun" in published.printed)
    for _ in range(presses):
        time.sleep(0.3)
        kernel.interrupt()
    stopped = kernel.finish(running)
    assert stopped.of("error")[0]["ename"] in {"KeyboardInterrupt", "CancelledError"}

    told = ok(
        kernel.run("""
turn = lab.restore(lab.turns().turn_id[0])
before = len(turn.events())
print(turn.status, turn.events()[-1].type.value)
for message in turn.messages: print(message.role.value, message.content[:30])
""")
    ).splitlines()
    assert told[0] == "CANCELLED TURN_CANCELLED"
    assert told[2:6] == [
        "assistant Half a text ",
        "tool quick",
        "tool Started, but its outcome is no",
        "tool Not run: the turn was cancelle",
    ]
    told = ok(
        kernel.run("""
await asyncio.sleep(3)
print(len(lab.restore(turn.id).events()) == before)
print(lab.run(af.Agent("b", model=script("Still here.")), "and now?", conversation_id="c").output)
lab.close()
""")
    )
    assert told == "True\nStill here.\n"
    promises_hold(tmp_path)


def test_the_stop_button_while_a_model_speaks_keeps_what_it_said(new_kernel, tmp_path):
    """K05: the text that came stands in the log, and the model call is told to be over."""
    kernel = new_kernel()
    ok(
        kernel.run("""
lab = af.Lab("lab.duckdb", durability="process", display=False)
agent = af.Agent("a", model=script("word " * 200, delay=0.05))
""")
    )
    running = kernel.begin("print('begun', flush=True); lab.run(agent, 'go')")
    kernel.until(lambda published: "begun" in published.printed)
    time.sleep(0.6)
    kernel.interrupt()
    assert kernel.finish(running).of("error")[0]["ename"] == "KeyboardInterrupt"

    told = ok(
        kernel.run("""
turn = lab.restore(lab.turns().turn_id[0])
kinds = [event.type.value for event in turn.events()]
print(turn.status, kinds.count("MODEL_STARTED"), kinds.count("MODEL_FAILED"), "MODEL_TEXT_DELTA" in kinds)
lab.close()
""")
    )
    assert told == "CANCELLED 1 1 True\n"
    promises_hold(tmp_path)


def test_eight_turns_that_stream_at_once_send_few_messages_each(new_kernel):
    """K13: bounded in number and size; the end is shown within half a second of it."""
    kernel = new_kernel()
    ok(
        kernel.run("""
lab = af.Lab("lab.duckdb", durability="process")
agent = af.Agent("a", model=script([af.TextDelta("x")] * 5_000))
""")
    )
    cells = [kernel.begin('lab.start(agent, "go")', cell=f"c{n}") for n in range(8)]
    published = [kernel.finish(cell) for cell in cells]
    began = time.monotonic()
    rest = kernel.run(
        """
turns = [lab.runner.restore(id) for id in lab.turns().turn_id]
for turn in turns: turn.wait(30)
await asyncio.sleep(0.5)
print(len(turns), {turn.output == "x" * 5_000 for turn in turns})
""",
        cell="z",
    )
    took = time.monotonic() - began
    assert ok(rest) == "8 {True}\n"

    messages = [message for each in [*published, rest] for message in each.messages]
    said = [message["content"] for message in messages if message["msg_type"] == "comm_msg"]
    panels = [comm for each in published for comm in each.panels]
    counts = Counter(content["comm_id"] for content in said if content["data"].get("method") == "custom")
    assert len(panels) == 8
    for comm in panels:
        mine = [
            content["data"]["content"]
            for content in said
            if content["comm_id"] == comm and "content" in content["data"]
        ]
        assert counts[comm] <= 4 + 20 * (took + 2)
        assert sum(len(str(message)) for message in mine) < 200_000
        assert mine[-1]["state"]["status"] == "COMPLETED"


@pytest.mark.parametrize("kind", ["approval", "form"])
def test_what_a_killed_kernel_asked_is_answered_by_a_click_in_the_next_one(new_kernel, tmp_path, kind):
    """K14: with the first kernel's arguments, once; the code is there again because its cell ran again."""
    cell = {
        "approval": SHOP,
        "form": """
@af.tool
def book() -> str:
    "Book."
    data = af.AgentToolContext.current().form_data
    if data is None:
        raise af.FormRequired("seats", "How many?")
    with open("done.txt", "a") as file:
        file.write(f"{data['n']}\\n")
    return "booked"

form = af.AgentForm("seats", "Seats", {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
lab = af.Lab("lab.duckdb", user="alice", durability="process")
model = script(script.call("book"), "Done.")
agent = lab.register(af.Agent("shop", version="1", model=model, tools=[book], forms=[form]))
""",
    }[kind]
    first = new_kernel()
    ok(first.run(cell))
    shown = first.run('turn = lab.run(agent, "go"); print(turn.status)', wait=0.3)
    assert ok(shown).startswith("WAITING_FOR")
    first.kill()

    second = new_kernel()
    ok(second.run(cell))
    again = second.run("turn = lab.restore(lab.inbox().turn_id[0])", wait=0.3)
    ok(again)
    question = turn_question(again)
    verb, data = ("approve", {}) if kind == "approval" else ("submit", {"data": {"n": 3}})
    second.press(again.panels[0], verb, question=question, **data)
    second.press(again.panels[0], verb, question=question, **data)

    told = ok(
        second.run("""
until = time.monotonic() + 10
while not turn.status.is_terminal and time.monotonic() < until: await asyncio.sleep(0.05)
turn.wait(5)
print(turn.status, lab.suspensions().answered_by[0])
lab.close()
""")
    )
    assert told == "COMPLETED alice\n"
    assert done(tmp_path) == (["O-1"] if kind == "approval" else ["3"])
    promises_hold(tmp_path)


MINE = """
import agentflex_nb as af
import pydantic

class Seats(pydantic.BaseModel):
    n: int

form = af.AgentForm("seats", "Seats", Seats)
script = af.ScriptedModel

@af.tool(approval=True)
def book() -> str:
    "Book."
    data = af.AgentToolContext.current().form_data
    if data is None:
        raise af.FormRequired(form, "How many?")
    with open("done.txt", "a") as file:
        file.write(f"{Seats(**data).n}\\n")
    return "booked"

def on_event(event):
    pass

def agent():
    return af.Agent("shop", model=script(script.call("book"), "Done."), tools=[book], forms=[form])
"""


@pytest.mark.parametrize(("mode", "touched"), [(2, "agentflex_nb/**/*.py"), (2, "mine.py"), (3, "mine.py")])
def test_what_is_loaded_again_by_itself_goes_on_with_what_waits(new_kernel, tmp_path, mode, touched):
    """K17: %autoreload, over all of this package, or over a module of the user's with tools, forms and listeners."""
    home = tmp_path / "home"
    shutil.copytree(Path(af.__file__).parent, home / "agentflex_nb", ignore=shutil.ignore_patterns("__pycache__"))
    (home / "mine.py").write_text(MINE)
    kernel = new_kernel(home=home)
    ok(kernel.run(f"%load_ext autoreload\n%autoreload {mode}"))
    cell = """
import mine
lab = af.Lab("lab.duckdb", user="alice", durability="process")
lab.runner.add_event_listener(mine.on_event)
agent = lab.register(mine.agent())
"""
    ok(kernel.run(cell))
    ok(kernel.run('turn = lab.run(agent, "go"); event = turn.events()[-1]'))
    for file in sorted(home.glob(touched)):
        file.write_text(file.read_text("utf-8") + "\n_TOUCHED = True\n", "utf-8")

    told = kernel.run("""
import copy, pickle
print(event.type == af.EventType.TURN_SUSPENDED, pickle.loads(pickle.dumps(event)) == event == copy.deepcopy(event))
snapshot = turn.to_snapshot()
print(pickle.loads(pickle.dumps(snapshot)) == snapshot == copy.deepcopy(snapshot))
print(copy.deepcopy(agent).version == agent.version)
""")
    assert ok(told) == "True True\nTrue\nTrue\n"
    ok(kernel.run(cell))
    ok(kernel.run("turn.approve()"))
    told = kernel.run('turn.submit({"n": 3}); print(turn.status == af.AgentStatus.COMPLETED, turn.status)')
    assert ok(told) == "True COMPLETED\n"
    assert done(tmp_path) == ["3"]


def test_what_a_tool_prints_stands_under_the_cell_that_runs_it(new_kernel):
    """K19: two turns in threads at once, and cells that end before they do."""
    kernel = new_kernel()
    ok(
        kernel.run("""
@af.tool
def talk(name: str) -> str:
    "Talk."
    for n in range(10):
        print(f"{name}{n}", flush=True)
        time.sleep(0.05)
    return name
lab = af.Lab("lab.duckdb", durability="process", display=False)
def agent(name): return af.Agent(name, model=script(script.call("talk", name=name), "Done."), tools=[talk])
""")
    )
    cells = {name: kernel.begin(f'{name} = lab.start(agent("{name}"), "go")', cell=name) for name in "ab"}
    last = kernel.begin("a.wait(10); b.wait(10)", cell="c")
    published = kernel.finish(last, wait=0.3)

    printed = dict.fromkeys(cells, "")
    for message in published.messages:
        if message["msg_type"] == "stream":
            (name,) = [name for name, cell in cells.items() if message["parent_header"]["msg_id"] == cell]
            printed[name] += message["content"]["text"]
    for name, text in printed.items():
        assert text.split() == [f"{name}{n}" for n in range(10)]

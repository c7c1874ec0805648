"""What a chat model must have."""

import pytest

from agentflex_nb.core.model import ChatModel, is_chat_model
from agentflex_nb.models.scripted import ScriptedModel


class Nameless:
    name = None

    def stream(self, request):
        return iter(())


def test_a_model_has_a_name_and_a_stream():
    assert is_chat_model(ScriptedModel("hi"))
    assert isinstance(ScriptedModel("hi"), ChatModel)


@pytest.mark.parametrize("value", [None, "gpt", object(), Nameless()])
def test_what_lacks_one_of_them_is_no_model(value):
    assert not is_chat_model(value)

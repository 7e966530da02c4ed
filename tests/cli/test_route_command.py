from stretto.route import Route


def test_a_person_reads_the_cause_the_shapes_and_the_forecast(stretto):
    result = stretto("route", "How do I look after a bicycle?")
    assert result.exit_code == 0
    first = result.stdout.splitlines()[0]
    assert first.endswith(".")
    assert "Shape of the answer" in result.stdout
    assert "points" in result.stdout
    assert "Forecast" in result.stdout
    assert "(chosen)" in result.stdout


def test_a_program_reads_the_route(stretto):
    result = stretto("route", "How do I look after a bicycle?", "--json")
    route = Route.model_validate_json(result.stdout)
    assert route.cause
    assert sum(chance for name, chance in route.probabilities.items() if name != "skeleton") > 0.99


def test_nothing_is_generated(stretto):
    opened = []
    stretto("route", "How do I look after a bicycle?", opened=opened)
    assert opened[0].calls == []
    assert opened[0].closed


def test_the_question_may_come_from_a_pipe(stretto):
    assert stretto("route", piped="Write a poem about the sea.\n").exit_code == 0
    assert stretto("route", piped="").exit_code == 2

import json


def test_a_check_prints_a_row_for_each_ability_and_where_it_is_kept(stretto, tmp_path):
    result = stretto("check", "openai:any", script="positive")
    assert result.exit_code == 0, result.stderr
    assert "labels out of a list" in result.stdout
    assert "5 of 10" in result.stdout
    assert "not held" in result.stdout
    assert str(tmp_path / "abilities") in result.stderr.replace("\n", "")


def test_a_check_as_json_is_what_is_kept(stretto, tmp_path):
    result = stretto("check", "openai:any", "--json", script="positive")
    [kept] = (tmp_path / "abilities").iterdir()
    assert json.loads(result.stdout) == json.loads(kept.read_text(encoding="utf-8"))

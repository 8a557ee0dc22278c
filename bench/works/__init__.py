"""The kinds of work. Each module has `run(stage) -> {measure: figure}`; `bench.bars` names them."""

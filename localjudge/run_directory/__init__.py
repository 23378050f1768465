"""What a run leaves in its directory: files, a store, and what they mean.

    schema of a file                  file                  reads or writes it
    manifest, identity                manifest.json         files
    summary                           summary.json          files
    files                             verification.json     files
    result_rows                       scores.jsonl,         files (writes), run_record
                                      verdicts.jsonl,
                                      evidence.jsonl
    label_rows                        labels.jsonl          label_rows
    store                             run.sqlite            store (writes), store_reader
    comparison_directory              comparison.json, beside two runs
    measured_judges                   in LOCALJUDGE_HOME    measured_judges

`directory` reads any file as untrusted input, and locks the directory (`run.lock`) to write in it.
The page `report.html` is written by `report`. Other modules compute: `verdict_rule`, `result_rows`
and `summary` between judging and files, `differences` of manifests. A finished run is a
`run_record.RunRecord`.

No module here imports one that judges.
"""

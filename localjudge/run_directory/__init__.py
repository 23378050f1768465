"""What a run leaves in its directory: files, a store, and what they mean.

    schema of a file                            file                  reads or writes it
    manifest, identity, environment, sampling   manifest.json         files
    summary                                     summary.json          files
    verification                                verification.json     files
    result_rows                                 scores.jsonl,         files (writes), run_record
                                                verdicts.jsonl,
                                                evidence.jsonl
    label_rows                                  labels.jsonl          label_file
    store_tables                                run.sqlite            store (writes), store_reader,
                                                                      archive
    comparison_directory                        comparison.json, beside two runs
    calibration                                 in LOCALJUDGE_HOME    saved_calibrations
    examination                                 in LOCALJUDGE_HOME    examination

`directory` reads any file as untrusted input, and `writing` locks the directory and writes. Other
modules compute: `evaluations` and `totals` between judging and files, `jury`, `differences` of
manifests, `consistency` of files. A finished run is a `run_record.RunRecord`.

No module here imports one that judges.
"""

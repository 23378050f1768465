CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{{ '<|im_start|>assistant\n' }}"
)
GUARDIAN = """\
<|start_of_role|>system<|end_of_role|>As a judge agent, your role is to help assess.<|end_of_text|>
{% for document in documents %}
<|start_of_role|>document {"document_id": "{{ document.doc_id }}"}<|end_of_role|>
{{ document.text }}<|end_of_text|>
{% endfor %}
{% for message in messages %}
<|start_of_role|>{{ message.role }}<|end_of_role|>{{ message.content }}<|end_of_text|>
{% endfor %}
<|start_of_role|>judge_protocol<|end_of_role|>\
### Criteria: {{ guardian_config.criteria_id }}<|end_of_text|>
<|start_of_role|>judge{{ '{think}' if think else '{no_think}' }}<|end_of_role|>"""
"""Granite Guardian 3.3, after github.com/ibm-granite/gguf, resources/ollama/granite3.3-guardian."""
DOCUMENTS_IN_JSON = """\
{% for document in documents %}{{ document | tojson }}
{% endfor %}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}
{{ guardian_config.criteria_id }}{{ think }}"""

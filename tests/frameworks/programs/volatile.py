"""A prompt that is never the same: the time, a uuid, a random number, what ``date`` says."""

import random
import subprocess
import uuid
from datetime import UTC, datetime

from openai import OpenAI

said = subprocess.run(["date", "+%s.%N"], capture_output=True, text=True, check=True).stdout
prompt = f"Hello. It is {datetime.now(UTC)}, {said}; run {uuid.uuid4()}, luck {random.random()}"
with OpenAI() as client:
    answer = client.chat.completions.create(
        model="gpt-4o", messages=[{"role": "user", "content": prompt}]
    )
print(prompt)
print(answer.model_dump_json())

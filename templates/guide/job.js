// The form: fields change the script while they are filled in.
(() => {
  const id = (name) => document.getElementById(name);
  const form = id("form"), text = id("script"), state = id("state");
  const offer = JSON.parse(id("offer").textContent);
  const { count, minutes, slurmTime, duration, memory } = jobAmounts;
  const fields = Object.fromEntries(Array.from(form.elements).filter((one) => one.name).map((one) => [one.name, one]));
  const value = (name) => name in fields ? fields[name].value.trim() : "";
  const number = (name) => value(name) === "" ? (fields[name] && fields[name].validity.badInput ? NaN : 0) : Number(value(name));

  // A command keeps the spaces before its lines.
  const command = () => fields.command.value.replace(/\s+$/, "");
  const chosen = () => offer.partitions.find((one) => one.name === value("partition")) || offer.partitions[0];
  const job = () => ({
    command: command(), name: value("name"), partition: value("partition"), account: value("account"),
    qos: value("qos"), nodes: number("nodes"), tasks: number("tasks"), cpus: number("cpus"), memory: value("memory"),
    gpus: number("gpus"), gpu_type: number("gpus") ? value("gpu_type") : "", scratch: number("scratch"), time: slurmTime(value("time")),
    array: value("array"), mail: value("mail"), modules: value("modules").split(/[\s,]+/).filter(Boolean), way: value("way"),
    image: value("way") ? value("image") : "",
  });

  const describe = (shape) => [
    shape.cpus && count(shape.cpus, "CPU"), shape.memory && memory(shape.memory),
    ...Object.entries(shape.gpus).map(([kind, number]) => `${number} × ${kind || "GPU"}`),
  ].filter(Boolean).join(", ");

  // The partition decides what the other fields may have.
  const fit = () => {
    const partition = chosen();
    const alike = new Map();
    for (const one of partition.shapes) alike.set(describe(one), (alike.get(describe(one)) || 0) + one.count);
    const limits = [
      partition.maxMinutes === null ? "No time limit" : `Up to ${duration(partition.maxMinutes)}`,
      ...Array.from(alike, ([words, number]) => `${count(number, "node")}${words && ` with ${words}`}`),
      ...(partition.isExclusive ? ["jobs get whole nodes"] : []),
      ...(partition.groups.length ? [`for the groups ${partition.groups.join(", ")} alone`] : []),
    ];
    id("about-partition").textContent = `${limits.join("; ")}.`;
    id("about-memory").textContent = partition.defaultMemory && `Without it: ${partition.defaultMemory}.`;
    const nodes = Math.min(partition.count, partition.maxNodes === null ? partition.count : partition.maxNodes);
    const most = (of) => Math.max(0, ...partition.shapes.map(of));
    fields.nodes.max = nodes;
    fields.cpus.max = most((one) => one.cpus) || "";
    if (fields.scratch) fields.scratch.max = most((one) => one.scratch);
    if (!fields.gpus) return;
    const kinds = new Map(partition.shapes.flatMap((one) => Object.entries(one.gpus)));
    const before = value("gpu_type");
    fields.gpu_type.replaceChildren(...[["", "any type"], ...Array.from(kinds.keys()).filter(Boolean).map((kind) => [kind, kind])]
      .map(([key, words]) => new Option(words, key, false, key === before)));
    fields.gpus.max = most((one) => Object.values(one.gpus).reduce((sum, number) => sum + number, 0));
    fields.gpus.disabled = fields.gpu_type.disabled = !kinds.size;
    if (!kinds.size) fields.gpus.value = "";
  };

  const show = () => {
    const wanted = job(), mistakes = jobMistakes(offer, wanted);
    for (const [name, field] of Object.entries(fields)) {
      const place = id(`wrong-${name}`);
      if (!place) continue;
      place.textContent = mistakes[name] || "";
      field.setAttribute("aria-invalid", name in mistakes);
    }
    const time = minutes(value("time"));
    id("about-time").textContent = !mistakes.time && value("time") && !Number.isNaN(time) ? `${duration(time)}.` : "";
    if (id("container")) id("container").hidden = !value("way");
    const wrong = Object.keys(mistakes).length;
    if (![wanted.nodes, wanted.tasks, wanted.cpus, wanted.gpus, wanted.scratch].some(Number.isNaN)) text.textContent = jobScript(wanted);
    text.classList.toggle("wrong", wrong > 0);
    id("copy").disabled = id("download").disabled = wrong > 0;
    state.textContent = wrong ? `${count(wrong, "field")} to mend first.` : "";
  };

  const fileName = () => `${(value("name") || "job").replace(/[^A-Za-z0-9_.-]+/g, "-")}.sh`;
  const select = () => {
    const range = document.createRange();
    range.selectNodeContents(text);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
  };
  id("copy").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text.textContent);
      state.textContent = "Copied.";
    } catch {
      // Where the page may not use the clipboard, the text is selected for Ctrl-C.
      select();
      state.textContent = document.execCommand("copy") ? "Copied." : "Selected: copy it by Ctrl-C.";
    }
  });
  id("download").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text.textContent], { type: "text/x-shellscript" }));
    link.download = fileName();
    link.click();
    URL.revokeObjectURL(link.href);
    state.textContent = `Saved as ${link.download}.`;
  });
  const update = (event) => {
    if (event.target === fields.partition) fit();
    show();
    id("submit").textContent = `sbatch ${fileName()}`;
  };
  form.addEventListener("input", update);
  form.addEventListener("change", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  fit();
  show();
  form.hidden = false;
})();

// What the cluster allows: amounts as Slurm writes them, and what is wrong with a job, by field of the form.
const jobAmounts = (() => {
  const count = (number, name) => `${number} ${name}${number === 1 ? "" : "s"}`;

  // Minutes of a time in words, such as 2h, 90 min or 1d 12h; NaN for other texts.
  const inWords = (text) => {
    const units = { w: 10080, d: 1440, h: 60, m: 1, s: 1 / 60 };
    const part = /(\d+(?:\.\d+)?) *(weeks?|w|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)(?![a-z])[ ,]*/g;
    const plain = text.trim().toLowerCase(), found = [...plain.matchAll(part)];
    if (!found.length || found.map(([whole]) => whole).join("") !== plain) return NaN;
    return Math.ceil(found.reduce((sum, [, number, unit]) => sum + Number(number) * units[unit[0]], 0));
  };

  // A time limit as Slurm reads it: one in words as days-hours:minutes:seconds, others as they are.
  const slurmTime = (text) => {
    const all = inWords(text);
    if (Number.isNaN(all)) return text;
    const two = (number) => String(number).padStart(2, "0");
    const days = Math.floor(all / 1440);
    return `${days ? `${days}-` : ""}${two(Math.floor(all % 1440 / 60))}:${two(all % 60)}:00`;
  };

  // Minutes of a time limit (sbatch(1), --time); NaN for other texts.
  const minutes = (text) => {
    if (!Number.isNaN(inWords(text))) return inWords(text);
    const found = /^(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?$/.exec(text.trim());
    if (!found) return NaN;
    const [days, ...parts] = found.slice(1).map((part) => part === undefined ? undefined : Number(part));
    const numbers = parts.filter((part) => part !== undefined);
    const units = days !== undefined || numbers.length === 3 ? [3600, 60, 1] : [60, 1];
    const seconds = numbers.reduce((sum, number, at) => sum + number * units[at], (days || 0) * 86400);
    return Math.ceil(seconds / 60);
  };

  const duration = (minutes) => [
    [Math.floor(minutes / 1440), "day"], [Math.floor(minutes % 1440 / 60), "hour"], [minutes % 60, "minute"],
  ].filter(([number]) => number).map(([number, name]) => count(number, name)).join(" ") || "0 minutes";

  // MiB of a memory such as 16G (sbatch(1), --mem); NaN for other texts.
  const mebibytes = (text) => {
    const found = /^(\d+)([KMGT]?)B?$/i.exec(text.trim());
    return found ? Number(found[1]) * { K: 1 / 1024, "": 1, M: 1, G: 1024, T: 1048576 }[found[2].toUpperCase()] : NaN;
  };
  const memory = (mebibytes) => mebibytes >= 1024 ? `${Math.floor(mebibytes / 1024)}G` : `${mebibytes}M`;

  return { count, minutes, slurmTime, duration, mebibytes, memory };
})();

const jobMistakes = (offer, job) => {
  const { count, minutes, duration, mebibytes, memory } = jobAmounts;
  const found = {};
  const say = (field, text) => { found[field] = found[field] || text; };
  const partition = offer.partitions.find((one) => one.name === job.partition);
  const most = (value) => Math.max(0, ...partition.shapes.map(value));

  if (!job.command.trim()) say("command", "Write what the job runs.");
  if (job.array && !/^\d+(-\d+(:\d+)?)?(,\d+(-\d+(:\d+)?)?)*(%\d+)?$/.test(job.array)) {
    say("array", "Write indices such as 1-100 or 0-9%2.");
  }
  if (job.mail && !/^[^\s@"]+@[^\s@"]+$/.test(job.mail)) say("mail", "Write an address such as ann@example.org.");
  if (/["\n]/.test(job.name)) say("name", "A name has no quotes.");
  if (job.way && !job.image) say("image", "Name an image.");
  for (const field of ["nodes", "tasks", "cpus", "gpus", "scratch"]) {
    if (!Number.isInteger(job[field]) || job[field] < 0) say(field, "Write a whole number.");
  }
  const time = job.time ? minutes(job.time) : null;
  const mem = job.memory ? mebibytes(job.memory) : 0;
  if (Number.isNaN(time)) say("time", "Write a time such as 2h, 1d 12h, 30 (minutes) or 1-12:00:00.");
  else if (time === 0) say("time", "A job needs some time.");
  if (Number.isNaN(mem)) say("memory", "Write an amount such as 16G or 500M.");
  if (!partition || Object.keys(found).length) return found;

  const nodes = job.nodes || 1, tasks = Math.max(job.tasks || 1, 1), cpus = job.cpus || 1;
  const perNode = (job.nodes ? Math.ceil(tasks / nodes) : 1) * cpus;
  const where = partition.name;
  if (!partition.isOpen) say("partition", `${where} starts no jobs at present.`);
  if (partition.maxMinutes !== null && time > partition.maxMinutes) {
    say("time", `${where} allows ${duration(partition.maxMinutes)}.`);
  }
  if (job.nodes && nodes < partition.minNodes) say("nodes", `Jobs in ${where} have at least ${count(partition.minNodes, "node")}.`);
  if (partition.maxNodes !== null && nodes > partition.maxNodes) {
    say("nodes", `Jobs in ${where} have at most ${count(partition.maxNodes, "node")}.`);
  }
  if (nodes > partition.count) say("nodes", `${where} has ${count(partition.count, "node")}.`);
  if (job.nodes > 1 && tasks < nodes) say("tasks", `${nodes} nodes need at least ${nodes} tasks.`);
  const mostCpus = most((one) => one.cpus), mostMemory = most((one) => one.memory);
  if (mostCpus && perNode > mostCpus) say("cpus", `A node of ${where} has ${count(mostCpus, "CPU")}; this needs ${perNode}.`);
  if (mostMemory && mem > mostMemory) say("memory", `A node of ${where} has ${memory(mostMemory)}.`);
  const gpusOf = (one) => job.gpu_type ? one.gpus[job.gpu_type] || 0 : Object.values(one.gpus).reduce((sum, n) => sum + n, 0);
  if (job.gpus > most(gpusOf)) {
    say("gpus", `A node of ${where} has ${count(most(gpusOf), "GPU")}${job.gpu_type ? ` of type ${job.gpu_type}` : ""}.`);
  }
  if (job.scratch > most((one) => one.scratch)) {
    say("scratch", `A node of ${where} has ${most((one) => one.scratch)} GB of scratch space.`);
  }

  if (partition.accounts.length && !partition.accounts.includes(job.account)) {
    say("account", `${where} is for the accounts ${partition.accounts.join(", ")} alone.`);
  }
  if (partition.deniedAccounts.includes(job.account)) say("account", `${where} is not for the account ${job.account}.`);
  if (partition.allowedQos.length && !partition.allowedQos.includes(job.qos)) {
    say("qos", `${where} is for jobs with the QOS ${partition.allowedQos.join(", ")} alone.`);
  }
  if (partition.deniedQos.includes(job.qos)) say("qos", `${where} is not for jobs with the QOS ${job.qos}.`);

  // Limits of QOS and accounts, and the fields by which a job exceeds them.
  const amounts = {
    minutes: time, nodes, cpus: tasks * cpus, memory: mem * nodes, gpus: (job.gpus || 0) * nodes,
    ...(job.gpu_type ? { [`gpus:${job.gpu_type}`]: (job.gpus || 0) * nodes } : {}),
  };
  const fields = { minutes: "time", nodes: "nodes", cpus: "cpus", memory: "memory" };
  const caps = [...partition.caps, ...(offer.accounts[job.account] || []), ...(offer.qos[job.qos] || [])];
  for (const cap of caps) {
    if (amounts[cap.of] > cap.most) say(fields[cap.of] || "gpus", `The limit of ${cap.says}.`);
  }

  // What each allows by itself, but no node has at once.
  const fitting = partition.shapes.filter((one) =>
    (!one.cpus || one.cpus >= perNode) && (!one.memory || one.memory >= mem) && gpusOf(one) >= (job.gpus || 0) &&
    one.scratch >= (job.scratch || 0));
  const there = fitting.reduce((sum, one) => sum + one.count, 0);
  if (!Object.keys(found).length && there < nodes) {
    say("nodes", there ? `${where} has ${count(there, "node")} with all of this.` : `No node of ${where} has all of this at once.`);
  }
  return found;
};

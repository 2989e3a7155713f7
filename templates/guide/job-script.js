"use strict";
// The text of a submit script from a few answers. programs/user_tools/job_script.py makes the same text from the same
// answers: tests/unit/programs/job_scripts.json has cases that both have to fulfil.
const jobScript = (() => {
  const plain = /^[A-Za-z0-9_.,:%@/+=[\]-]+$/;
  const compound = /[;&|<>()\n]/;
  // What stands before the command; options are those of srun.
  const calls = {
    podman: (image) => `sdocker run ${image}`,
    enroot: (image) => `--container-image=${image}`,
    oci: (image) => `--container=${image}`,
    apptainer: (image) => `apptainer exec --nv ${image}`,
  };

  // As sbatch reads a value from a script, and as the shell reads a word.
  const quoted = (text) => plain.test(text) ? text : `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
  const singleQuoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const word = (text) => plain.test(text) && !text.includes("[") ? text : singleQuoted(text);

  const gres = (job) => [
    ...(job.gpus ? [`gpu:${job.gpu_type ? `${job.gpu_type}:` : ""}${job.gpus}`] : []),
    ...(job.scratch ? [`scratch:${job.scratch}`] : []),
  ].join(",");
  const directives = (job) => [
    ["job-name", job.name],
    ["partition", job.partition],
    ["account", job.account],
    ["qos", job.qos],
    ["nodes", job.nodes],
    ["ntasks", job.tasks],
    ["cpus-per-task", job.cpus],
    ["mem", job.memory],
    ["gres", gres(job)],
    ["time", job.time],
    ["array", job.array],
    ["output", job.array ? "%x-%A_%a.out" : "%x-%j.out"],
    ["mail-user", job.mail],
    ["mail-type", job.mail ? "END,FAIL" : ""],
  ].filter(([, value]) => value).map(([name, value]) => `#SBATCH --${name}=${quoted(String(value))}`);

  const call = (job) => {
    const before = job.way && job.image ? calls[job.way](word(job.image)) : "";
    const isStep = job.tasks > 1 || job.nodes > 1 || before.startsWith("--");
    const words = [
      ...(isStep ? ["srun"] : []),
      // srun does not take it from the job (srun(1), --cpus-per-task).
      ...(isStep && job.cpus > 1 ? [`--cpus-per-task=${job.cpus}`] : []),
      ...(before ? [before] : []),
    ];
    if (!words.length) return job.command;
    return [...words, compound.test(job.command) ? `sh -c ${singleQuoted(job.command)}` : job.command].join(" ");
  };

  return (job) => {
    const modules = job.modules && job.modules.length ? job.modules : [];
    return [
      modules.length ? "#!/bin/bash -l" : "#!/bin/bash",
      ...directives(job),
      "",
      "set -e",
      ...(modules.length ? [`module load ${modules.map(word).join(" ")}`] : []),
      "",
      call(job),
      "",
    ].join("\n");
  };
})();

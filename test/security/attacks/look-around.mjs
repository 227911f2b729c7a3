// What is to be seen and reached from here: processes, SysV memory, names of directories, signals to foreign processes.
import fs from 'node:fs';

const { directories = [], foreignPids = [] } = JSON.parse(process.env.ATTACK);

function list(dir) {
  try {
    return fs.readdirSync(dir).sort();
  } catch (error) {
    return error.code;
  }
}

function text(file) {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch (error) {
    return error.code;
  }
}

function signal(pid) {
  try {
    process.kill(pid, 0);
    return 'reached';
  } catch (error) {
    return error.code;
  }
}

const pids = list('/proc').filter((name) => /^\d+$/.test(name));
console.log(
  JSON.stringify({
    commands: pids.map((pid) => text(`/proc/${pid}/cmdline`).replaceAll('\0', ' ')),
    processOne: {
      signal: signal(1),
      environment: text('/proc/1/environ'),
      root: list('/proc/1/root'),
      cwd: list('/proc/1/cwd'),
    },
    foreign: foreignPids.map(signal),
    sharedMemory: text('/proc/sysvipc/shm').trim().split('\n').slice(1),
    directories: Object.fromEntries(directories.map((dir) => [dir, list(dir)])),
    mounts: text('/proc/self/mountinfo')
      .trim()
      .split('\n')
      .map((line) => line.split(' ')[4]),
  }),
);

import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { suite, test } from 'node:test';
import { machineOfOwn, whyNoMachineOfOwn } from '../../../scripts/test-machines.mjs';
import { eventually } from '../../fixtures/eventually.ts';

const reason = whyNoMachineOfOwn();
const [program = '', ...words] = machineOfOwn;

/** What the command prints on a machine of its own. */
const onMachine = (script: string): string[] =>
  execFileSync(program, [...words, 'sh', '-c', script], { encoding: 'utf8' })
    .trim()
    .split('\n');

/** Those of this machine that have the word in their command line. */
function processesWith(word: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => existsSync(`/proc/${pid}/cmdline`) && commandLine(pid).includes(word));
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1');
  } catch {
    return '';
  }
}

const ended = (child: ChildProcess) => new Promise((resolve) => child.once('exit', resolve));

suite('the machine of a file of tests', { skip: reason ?? false }, () => {
  test('has loopback alone, in /sys, too, with the cgroups of this machine', () => {
    assert.deepEqual(onMachine('ls /sys/class/net'), ['lo']);
    assert.deepEqual(onMachine('ip -o -4 address | cut -d" " -f2,7'), ['lo 127.0.0.1/8']);
    assert.deepEqual(onMachine('ls /sys/fs/cgroup'), readdirSync('/sys/fs/cgroup').sort());
  });

  test('has processes, mounts and /run of its own', () => {
    const [first, run, mount] = onMachine(
      'head -c 4 /proc/1/cmdline; echo; touch /run/own; ls -d /run/*own; mount -t tmpfs own-mount /mnt; grep -c own-mount /proc/self/mounts',
    );
    assert.deepEqual([first, run, mount], ['bash', '/run/own', '1']);
    assert.ok(!existsSync('/run/own'));
    assert.doesNotMatch(readFileSync('/proc/self/mounts', 'utf8'), /own-mount/);
  });

  test('ends as its command does, and takes along what that left', async () => {
    const word = randomUUID();
    const child = spawn(program, [...words, 'sh', '-c', `setsid sh -c "sleep 1000; : ${word}" & exit 7`]);
    assert.equal(await ended(child), 7);
    await eventually(() => assert.deepEqual(processesWith(word), []));
  });

  test('ends with whoever started it, whatever ended that', async () => {
    const word = randomUUID();
    const script = `require('node:child_process').spawn('${program}', ['sh', '-c', 'sleep 1000; : ${word}'], { stdio: 'inherit' })`;
    const starter = spawn(process.execPath, ['-e', script]);
    await eventually(() => assert.ok(processesWith(word).some((pid) => commandLine(pid).startsWith('sh'))), 10_000);
    starter.kill('SIGKILL');
    await ended(starter);
    await eventually(() => assert.deepEqual(processesWith(word), []));
  });
});

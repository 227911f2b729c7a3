import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { launcherActions } from '../../../../src/agent/serve/server/launcher-actions.ts';
import { connectGuestSocket } from '../../../../src/host/guest-sockets.ts';
import { LauncherClients } from '../../../../src/launcher-client/index.ts';
import { node, uid, vmiOf } from '../../../fixtures/agent/builders.ts';
import { type LauncherProcess, type LauncherProgram, launcherProgram } from '../../../fixtures/launcher-process.ts';
import { socketFileOf } from '../../../fixtures/scripted-launcher.ts';

/** Launchers as real processes with a /run of their own, seen through the machine's own /proc. */

const never = new AbortController().signal;
let program: LauncherProgram;
let podsDir: string;
let clients: LauncherClients;
let launcher: LauncherProcess;

before(async () => {
  program = await launcherProgram();
});

after(() => program.dispose());

beforeEach(async () => {
  podsDir = mkdtempSync(path.join(tmpdir(), 'pods-'));
  clients = new LauncherClients({ podsDir, nodeName: node });
  launcher = await program.start(socketFileOf(podsDir, 'pod-1'), { ownRun: true });
});

afterEach(async () => {
  clients.stop();
  await program.endAll();
  rmSync(podsDir, { recursive: true, force: true });
});

/** Where the launcher's own processes see `/run/kubevirt-private/<uid>`. */
function privateDir(): string {
  const directory = `/proc/${launcher.pid}/root/run/kubevirt-private/${uid}`;
  mkdirSync(directory, { recursive: true });
  return directory;
}

async function open(name = 'virt-serial0') {
  const { process: known } = await launcherActions(clients).connect(vmiOf('Running'), never);
  return connectGuestSocket({ launcher: known, directory: uid, name }, never, '/proc');
}

test('a socket that only the launcher’s mount namespace has is reached', async () => {
  const server = createServer((socket) => socket.end('from inside'));
  server.listen(path.join(privateDir(), 'virt-serial0'));
  await once(server, 'listening');
  try {
    let text = '';
    for await (const chunk of await open()) text += chunk;
    assert.equal(text, 'from inside');
    await assert.rejects(open('virt-vnc'), { code: 'NOT_FOUND' });
  } finally {
    server.close();
  }
});

test('a listener of another pid namespace in the launcher’s place is refused', async () => {
  const file = path.join(privateDir(), 'virt-serial0');
  const listening = `require('node:net').createServer().listen(process.argv[1], () => console.log('ready'))`;
  const argv = ['--pid', '--fork', '--kill-child=KILL', process.execPath, '-e', listening, file];
  const stranger = spawn('unshare', argv, { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    await once(stranger.stdout, 'data');
    await assert.rejects(open(), { code: 'NOT_TRUSTED', message: /not of this guest's pod/ });
  } finally {
    stranger.kill('SIGKILL');
    await once(stranger, 'exit');
  }
});

test('who made the socket may have ended since: what it handed on is still the guest’s', async () => {
  const file = path.join(privateDir(), 'virt-serial0');
  // As libvirt's daemon does: it listens, and gives the descriptor to the process that becomes QEMU.
  const heir = `const s = require('node:net').createServer((c) => c.end('from the heir')); s.listen({ fd: 3 }, () => console.log('ready'))`;
  const maker = `
    const { createServer } = require('node:net');
    const { spawn } = require('node:child_process');
    const server = createServer().listen(process.argv[1], () => {
      const child = spawn(process.execPath, ['-e', ${JSON.stringify(heir)}], {
        stdio: ['ignore', 'inherit', 'inherit', server._handle.fd], detached: true,
      });
      console.error(child.pid);
      child.unref();
      setTimeout(() => process.kill(process.pid, 'SIGKILL'), 50);
    });`;
  const made = spawn(process.execPath, ['-e', maker, file], { stdio: ['ignore', 'pipe', 'pipe'] });
  const [pid] = await once(made.stderr, 'data');
  try {
    await Promise.all([once(made.stdout, 'data'), once(made, 'exit')]);
    let text = '';
    for await (const chunk of await open()) text += chunk;
    assert.equal(text, 'from the heir');
  } finally {
    process.kill(Number(pid), 'SIGKILL');
  }
});

test('a launcher that was killed is said so, and its pod’s files are left alone', async () => {
  const actions = launcherActions(clients);
  const { process: known } = await actions.connect(vmiOf('Running'), never);
  assert.equal(known.pid, launcher.pid);
  assert.match(readFileSync(`/proc/${known.pid}/stat`, 'latin1'), new RegExp(` ${known.startTime} `));
  await launcher.kill();
  const opening = connectGuestSocket({ launcher: known, directory: uid, name: 'virt-serial0' }, never, '/proc');
  await assert.rejects(opening, { code: 'ENDED' });
  await assert.rejects(actions.connect(vmiOf('Running'), never));
});

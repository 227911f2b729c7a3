import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFile, stat } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { findCondition, type TimelineRow } from '../../../src/api/index.ts';
import { untilLogin } from '../../../src/standalone/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { demoVmi, NodeProcess } from '../../fixtures/node-process.ts';
import { decodePng } from '../../fixtures/png.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';

describe('the command line on a VM that runs', { skip: needsRoot }, () => {
  let node: NodeProcess;
  const children = new Set<ChildProcess>();

  before(async () => {
    node = await NodeProcess.create();
    await node.start();
    await node.apply(demoVmi('cli'));
    await node.vmiUntil('cli', (vmi) => vmi?.status?.phase === 'Running');
    await untilLogin(await node.serial('cli'), AbortSignal.timeout(60_000));
  });
  after(async () => {
    for (const child of children) child.kill('SIGKILL');
    await node.dispose();
  });

  /** A console whose input stays open. */
  function attach(...flags: string[]) {
    const child = node.spawnCli(['console', 'cli', ...flags]);
    children.add(child);
    const said = { out: '', err: '' };
    child.stdout?.on('data', (chunk) => {
      said.out += chunk;
    });
    child.stderr?.on('data', (chunk) => {
      said.err += chunk;
    });
    const ended = once(child, 'exit').then(([code]) => Number(code));
    const type = (text: string) => child.stdin?.write(text);
    const says = (pattern: RegExp, from: 'out' | 'err' = 'out') =>
      eventually(() => assert.match(said[from], pattern), 30_000);
    return { child, said, ended, type, says };
  }

  test('explain --timeline has a row of each program that took part in the start, in the order of time', async () => {
    await eventually(async () => {
      const { stdout, stderr } = await node.cli(['explain', 'cli', '--timeline', '-o', 'json']);
      const { rows }: { readonly rows: readonly TimelineRow[] } = JSON.parse(stdout || assert.fail(stderr));
      const parts = ['controller', 'scheduler', 'pod', 'launcher', 'agent', 'libvirt', 'QEMU', 'guest', 'phase'];
      assert.deepEqual([...new Set(rows.map(({ part }) => part))].sort(), parts.sort());
      const begins = rows.filter(({ part }) => part !== 'phase').map(({ from, to }) => Date.parse(from ?? to));
      assert.deepEqual(begins, begins.toSorted());
    });
    const { stdout } = await node.cli(['explain', 'cli', '--timeline']);
    assert.match(stdout, /^\d+ ms +\d+ ms +\.*#+\.* +QEMU +until its CPUs run$/m);
  });

  test('a console is refused while somebody types, --view looks on, --take takes over and the other one ends with the reason', async () => {
    const first = attach();
    await first.says(/connected: default\/cli/, 'err');
    first.type('root\n');
    await first.says(/root@\S+#/);
    const second = attach();
    assert.equal(await second.ended, 6);
    assert.match(second.said.err, /somebody else uses it now: --take takes it over, --view looks on/);
    const viewer = attach('--view');
    await viewer.says(/root@\S+#/);
    viewer.type('echo typed-by-nobody\n');
    const third = attach('--take');
    assert.equal(await first.ended, 6);
    assert.match(first.said.err, /taken over/);
    third.type('echo $((40 + 2))-of-the-third\n');
    await third.says(/42-of-the-third/);
    await viewer.says(/42-of-the-third/);
    assert.doesNotMatch(viewer.said.out, /typed-by-nobody/);
    third.type('\x1d');
    assert.equal(await third.ended, 0);
    viewer.child.kill('SIGINT');
    assert.equal(await viewer.ended, 0);
  });

  test('kill -9 of the agent in the middle of a console: it says so, and goes on', async () => {
    const session = attach();
    await session.says(/connected: default\/cli/, 'err');
    session.type('echo $((20 + 1))-before\n');
    await session.says(/21-before/);
    process.kill(await node.pidOf('virt-handler'), 'SIGKILL');
    await session.says(/virt-handler went away; connecting again/, 'err');
    session.type('echo $((20 + 2))-after\n');
    await session.says(/22-after/);
    assert.match(session.said.err, /connected again/);
    session.type('\x1d');
    assert.equal(await session.ended, 0);
  });

  test('pause and unpause show in the status; the guest answers again', async () => {
    const paused = (wanted: boolean) =>
      node.vmiUntil('cli', (vmi) => (findCondition(vmi?.status?.conditions, 'Paused')?.status === 'True') === wanted);
    const pause = await node.cli(['pause', 'cli']);
    assert.equal(pause.stdout.trim(), 'default/cli is paused', pause.stderr);
    await paused(true);
    assert.equal((await node.cli(['unpause', 'cli'])).stdout.trim(), 'default/cli runs again');
    await paused(false);
    assert.match((await node.cli(['console', 'cli'], 'echo $((6 * 7))\n')).stdout, /\n42\r/);
  });

  test('a screenshot is a PNG, in a file of this name or on standard output', async () => {
    const file = path.join(node.paths.stateDir, 'screen.png');
    const saved = await node.cli(['screenshot', 'cli', '-o', file]);
    assert.match(saved.stdout, /screen\.png: \d+ bytes, image\/png/, saved.stderr);
    const { width, height } = decodePng(await readFile(file));
    assert.ok(width >= 640 && height >= 400, `${width}x${height}`);
    const piped = await node.cli(['screenshot', 'cli', '-o', '-']);
    assert.match(piped.stdout, /^.PNG/);
  });

  test('vnc gives a local port on which QEMU answers, and says how to open it', async () => {
    const child = node.spawnCli(['vnc', 'cli']);
    children.add(child);
    let said = '';
    child.stdout?.on('data', (chunk) => {
      said += chunk;
    });
    await eventually(() => assert.match(said, /vncviewer 127\.0\.0\.1::\d+[\s\S]*Ctrl-C ends it/));
    const [, port] = /vnc:\/\/127\.0\.0\.1:(\d+)/.exec(said) ?? [];
    const viewer = connect(Number(port), '127.0.0.1');
    assert.match(String((await once(viewer, 'data'))[0]), /^RFB 003\.008\n$/);
    viewer.destroy();
    child.kill('SIGINT');
    assert.deepEqual(await once(child, 'exit'), [0, null]);
  });

  test('reboot --force resets the guest, which asks for a login again', async () => {
    const viewer = attach('--view');
    await viewer.says(/looking on: default\/cli/, 'err');
    const before = viewer.said.out.split('login:').length;
    assert.equal((await node.cli(['reboot', 'cli', '--force'])).stdout.trim(), 'default/cli was reset');
    await eventually(() => assert.ok(viewer.said.out.split('login:').length > before), 120_000);
    viewer.child.kill('SIGINT');
    await viewer.ended;
  });

  test('what is asked of a VM that is not there, or not of this node, is refused with what to look at', async () => {
    for (const command of ['pause', 'reboot', 'screenshot', 'vnc', 'console']) {
      const { code, stderr } = await node.cli([command, 'nobody']);
      assert.equal(code, 4, command);
      assert.match(stderr, /there is no VM nobody in namespace default/);
    }
    await node.apply(demoVmi('waits', { nodeSelector: { nobody: 'has-this' } }));
    const { code, stderr } = await node.cli(['console', 'waits']);
    assert.equal(code, 6);
    assert.match(stderr, /default\/waits is \w+, not Running/);
    await eventually(async () => {
      const { stdout } = await node.cli(['explain', 'waits']);
      assert.match(stdout, /^default\/waits is on no node$[\s\S]*waits for a node that takes its launcher pod: /m);
      assert.match(stdout, /^ {2}decided .*\(VirtualMachineInstance, rule /m);
    });
    const misspelt = await node.cli(['console', 'wiats']);
    assert.deepEqual([misspelt.code, /did you mean waits\?/.test(misspelt.stderr)], [4, true]);
    await node.kubectl('delete', 'vmi', 'waits');
  });

  test('the page is served to who has its token; url prints it, status does not', async () => {
    const url = (await node.cli(['url'])).stdout.trim();
    const [, shown, port, token] = /^(http:\/\/vms-[\da-f]{16}\.localhost:(\d+)\/)#token=([\w-]{32})$/.exec(url) ?? [];
    assert.ok(shown && token, url);
    const origin = `http://127.0.0.1:${port}`;
    assert.ok(node.output.includes(url), 'start prints it');
    assert.equal((await stat(node.paths.webAddress)).mode & 0o777, 0o600);
    const status = (await node.cli(['status'])).stdout;
    assert.ok(status.includes(shown) && !status.includes(token), status);
    const get = (target: string, headers = {}) => fetch(`${origin}${target}`, { headers, redirect: 'manual' });
    const mine = { authorization: `Bearer ${token}` };
    assert.equal((await get('/api/vms')).status, 401);
    const list = (await (await get('/api/vms', mine)).json()) as { rows: { name: string; vmi?: { phase: string } }[] };
    assert.deepEqual(
      list.rows.map(({ name, vmi }) => [name, vmi?.phase]),
      [['cli', 'Running']],
    );
    const picture = await get('/v1/namespaces/default/virtualmachineinstances/cli/vnc/screenshot', mine);
    assert.equal(picture.headers.get('content-type'), 'image/png');
    assert.equal((await get('/api/why/default/cli', mine)).status, 200);
    const looks = (await node.cli(['url', '--read-only'])).stdout.trim().split('#token=')[1] ?? '';
    const theirs = { authorization: `Bearer ${looks}` };
    assert.equal((await get('/api/vms', theirs)).status, 200);
    const stop = await fetch(`${origin}/api/vms/default/cli/stop`, { method: 'POST', headers: theirs });
    assert.equal(stop.status, 403);
  });

  test('an ordinary user of one namespace sees it with kubectl, and no other; revoked it is over', async () => {
    const file = path.join(node.paths.stateDir, 'anna.kubeconfig');
    const made = await node.cli(['kubeconfig', '--user', 'anna', '--namespace', 'default', '--read-only', '-o', file]);
    assert.equal(made.code, 0, made.stderr);
    assert.match(await node.kubectl('--kubeconfig', file, 'get', 'vmi', '-o', 'name'), /\/cli$/m);
    await assert.rejects(node.kubectl('--kubeconfig', file, 'get', 'vmi', '-A'), /cannot list resource/);
    await assert.rejects(node.kubectl('--kubeconfig', file, 'delete', 'vmi', 'cli'), /cannot delete resource/);
    assert.match((await node.cli(['users'])).stdout, /^anna +default +read /m);
    assert.equal((await node.cli(['kubeconfig', '--user', 'anna', '--revoke'])).code, 0);
    await assert.rejects(node.kubectl('--kubeconfig', file, 'get', 'vmi'), /must be logged in/);
  });

  test('list shows it, for people and for programs', async () => {
    assert.match((await node.cli(['list'])).stdout, /^default +cli +Running +True /m);
    const { items } = JSON.parse((await node.cli(['list', '-o', 'json'])).stdout);
    assert.deepEqual(
      items.map(({ metadata }: { metadata: { name: string } }) => metadata.name),
      ['cli'],
    );
  });

  test('ports that others have taken meanwhile are passed over at the next start, and told; the VM stays, the page’s token does not', async () => {
    const token = (await node.cli(['url'])).stdout.trim().split('token=')[1] ?? '';
    const agent = JSON.parse(await readFile(node.paths.agentAddress, 'utf8'));
    const webPort = Number(/:(\d+)\//.exec(await readFile(node.paths.webAddress, 'utf8'))?.[1]);
    const qemu = await node.qemuPid('cli');
    await node.end('SIGTERM');
    const taken = [agent.port, webPort].map((port: number) => createServer().listen(port, '127.0.0.1'));
    await Promise.all(taken.map((server) => once(server, 'listening')));
    try {
      await node.start();
      assert.notEqual(JSON.parse(await readFile(node.paths.agentAddress, 'utf8')).port, agent.port);
      const url = (await node.cli(['url'])).stdout.trim();
      assert.ok(!url.includes(`:${webPort}/`) && !url.includes(token), url);
      assert.match(
        node.output,
        new RegExp(`WARNING: port ${webPort} of the web page is held by .* number ${process.getuid?.()}`),
      );
      assert.equal(await node.qemuPid('cli'), qemu);
      await eventually(async () => {
        const { code, stderr } = await node.cli(['pause', 'cli']);
        assert.equal(code, 0, stderr);
      });
      assert.equal((await node.cli(['unpause', 'cli'])).code, 0);
    } finally {
      for (const server of taken) server.close();
    }
  });
});

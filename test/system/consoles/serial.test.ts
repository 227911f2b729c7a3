import assert from 'node:assert/strict';
import { constants, existsSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { parseLogStart } from '../../../src/host/index.ts';
import { agentOf } from '../../../src/standalone/index.ts';
import { AgentConsole, plainProtocol, sessionProtocol } from '../../fixtures/agent-console.ts';
import { eventually, settled } from '../../fixtures/eventually.ts';
import { demoVmi, NodeProcess } from '../../fixtures/node-process.ts';
import { type StreamClient, UpgradeRefused } from '../../fixtures/stream-client.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const route = 'console';

describe('the serial console of a real guest, through the agent', { skip: needsRoot }, () => {
  let node: NodeProcess;
  let agent: AgentConsole;

  before(async () => {
    node = await NodeProcess.create();
    await node.start();
    agent = new AgentConsole(agentOf(node.paths));
    await node.apply(demoVmi('talks'));
    await node.vmiUntil('talks', (vmi) => vmi?.status?.phase === 'Running');
  });
  after(() => node.dispose());

  /** A prompt that was printed before is not repeated by itself. */
  async function knockUntil(console: StreamClient, pattern: RegExp): Promise<void> {
    const knock = setInterval(() => console.type('\r'), 500);
    try {
      await console.until(pattern, 60_000);
    } finally {
      clearInterval(knock);
    }
  }

  /** Types a command whose answer is not in its own echo. */
  async function ask(console: StreamClient, number: number): Promise<void> {
    const from = console.shown.length;
    console.type(`echo $((${number} * 1000 + 1))\r`);
    await console.until(new RegExp(`^${number}001\\r?$`, 'm'), 30_000, from);
  }

  test('before anybody has looked, what the guest wrote since its boot is the log of its container, and is in the first console of ours', async () => {
    const uid = (await node.vmi('talks'))?.metadata.uid;
    const pod = (await node.kubectl('get', 'pods', '-l', `kubevirt.io/created-by=${uid}`, '-o', 'name')).trim();
    const logs = (...flags: string[]) => node.kubectl('logs', pod, '-c', 'guest-console-log', ...flags);
    await eventually(async () => assert.match(await logs(), /login:$/), 60_000);
    const last = await logs('--tail=3');
    assert.deepEqual([last.split('\n').length, last.endsWith('login:')], [3, true], last);
    assert.match(await logs('--timestamps'), /^20\d\d-\d\d-\d\dT[\d:.]+Z \s*demo login:/m);
    assert.match(await logs('--since=1h'), /login:$/);
    assert.equal(await logs('--since-time=2999-01-01T00:00:00Z'), '');
    await assert.rejects(logs('--previous'), /previous terminated container "guest-console-log" in pod .* not found/);
    const status = await node.kubectl('get', pod, '-o', 'jsonpath={.status.initContainerStatuses[*].state}');
    assert.match(status, /running/);

    const console = await agent.stream('talks', route, sessionProtocol);
    const attached = await console.untilNotice('attached');
    await console.until(/login: $/);
    assert.equal(attached.offset, 0);
    assert.equal(console.text.trim(), await logs());
    await console.close();

    // QEMU appends: a log that its launcher cuts goes on at its new end.
    const qemu = await node.qemuPid('talks');
    const { fd } = serialLogOf(qemu);
    const flags = /^flags:\s*(\d+)$/m.exec(readFileSync(`/proc/${qemu}/fdinfo/${fd}`, 'utf8'))?.[1];
    assert.ok(Number.parseInt(flags ?? '', 8) & constants.O_APPEND, flags);
  });

  test('a login is typed and uname answers', async () => {
    const console = await agent.stream('talks', route);
    assert.equal(console.socket.protocol, plainProtocol);
    await knockUntil(console, /login: $/);
    console.type('root\r');
    await console.until(/# /);
    console.type('uname -a\r');
    await console.until(/^Linux demo \d+\.\d+.* x86_64 GNU\/Linux\r?$/m);
    assert.deepEqual(console.notices, []);
    await console.close();
  });

  test('a newcomer takes a plain session over; its owner is told by 4001 and a reason, and the newcomer goes on in the same shell', async () => {
    const first = await agent.stream('talks', route);
    await knockUntil(first, /# $/);
    first.type('mark=a-shell-of-its-own\r');
    const second = await agent.stream('talks', route);
    const { code, reason } = await first.untilClosed();
    assert.equal(code, 4001);
    assert.match(reason, /taken over/);
    second.type('echo "[$mark]"\r');
    await second.until(/^\[a-shell-of-its-own\]\r?$/m);
    await second.close();
  });

  test('a plain GET is refused and the session that is open goes on', async () => {
    const console = await agent.stream('talks', route);
    await knockUntil(console, /# $/);
    const { status, contentType } = await agent.call('GET', 'talks', route);
    assert.ok(status === 400 || status === 426, `${status}`);
    assert.match(contentType, /^text\/plain/);
    await ask(console, 11);
    assert.equal(console.closed, undefined);
    await console.close();
  });

  test('viewers read along and cannot type; the writer that is taken over by an aware one becomes a viewer and can take it back', async () => {
    const writer = await agent.stream('talks', route, sessionProtocol);
    const viewer = await agent.stream('talks', `${route}?access=view`, sessionProtocol);
    assert.equal((await writer.untilNotice('attached')).role, 'writer');
    assert.equal((await viewer.untilNotice('attached')).role, 'viewer');
    await knockUntil(writer, /# $/);
    const before = writer.shown.length;
    viewer.type('echo a viewer typed this\r');
    await ask(writer, 21);
    assert.doesNotMatch(writer.shown.slice(before), /a viewer typed/);
    await viewer.until(/^21001\r?$/m);
    viewer.sendMessage({ kind: 'take' });
    await viewer.untilNotice('role', ({ role }) => role === 'writer');
    const reported = await writer.untilNotice('role', ({ role }) => role === 'viewer');
    assert.match(String(reported.reason), /./);
    await ask(viewer, 22);
    await writer.until(/^22001\r?$/m);
    await Promise.all([writer.close(), viewer.close()]);
  });

  test('who attaches later is shown what was said before, and who comes back gets exactly what was missed', async () => {
    const first = await agent.stream('talks', route, sessionProtocol);
    await knockUntil(first, /# $/);
    await ask(first, 31);
    const { line, offset } = await first.untilNotice('attached');
    const next = Number(offset) + first.text.length;
    first.socket.terminate();
    const other = await agent.stream('talks', route, sessionProtocol);
    await other.until(/^31001\r?$/m);
    await ask(other, 32);
    // Else the prompt may come when it has left.
    await other.until(/32001\s+\S*# $/);
    const seen = other.text.slice(other.text.lastIndexOf('31001'));
    await other.close();
    const back = await agent.stream('talks', `${route}?line=${line}&from=${next}`, sessionProtocol);
    const attached = await back.untilNotice('attached');
    assert.equal(attached.line, line);
    assert.equal(attached.lost, 0);
    await back.until(/^32001\r?$/m);
    assert.doesNotMatch(back.text, /31001/);
    assert.ok(seen.endsWith(back.text.slice(0, Number(attached.replayed))), back.text);
    await back.close();
  });

  test('a guest that floods its console: its log is cut as it grows, and who attaches later sees the end without a gap', async () => {
    const [first, last] = [10_000_001, 10_300_000];
    const flood = (last - first + 1) * `${first}\r\n`.length;
    // Prompts and echoes; what the guest wrote in the very moment of a cut; and QEMU logs a byte once more that the agent did not take at once.
    const besides = flood / 100;
    const qemu = await node.qemuPid('talks');
    const log = `/proc/${qemu}/root${serialLogOf(qemu).file}`;
    const written = () => sizeOf(log) + parseLogStart(textOf(`${log}.start`));
    const console = await agent.stream('talks', route);
    await knockUntil(console, /# $/);
    const before = await settled(written, 1_500);
    // On a busy machine the kernel has things to say, too.
    console.type(`dmesg -n 1; seq ${first} ${last}\r`);
    await console.until(/^10000001\r?$/m);
    await console.close();
    let longest = 0;
    await eventually(() => {
      longest = Math.max(longest, sizeOf(log));
      const bytes = written() - before;
      assert.ok(bytes > flood - besides, `${bytes} of ${flood} bytes`);
    }, 120_000);
    assert.ok(longest < 2.5 * 2 ** 20, `the log had ${longest} bytes`);
    assert.equal(sizeOf(`${log}.1`), 2 * 2 ** 20);

    const end = await settled(written, 1_500, 60_000);
    const later = await agent.stream('talks', route, sessionProtocol);
    const { offset } = await later.untilNotice('attached');
    await later.until(/# $/);
    assert.ok(end - before < flood + besides, `${end - before} bytes for ${flood}`);
    assert.ok(Math.abs(Number(offset) + later.text.length - end) < besides, `${offset} + ${later.text.length}: ${end}`);
    const numbers = [...later.text.matchAll(/^(10\d{6})\r?$/gm)].map(([, number]) => Number(number));
    assert.ok(numbers.length > 1_000, `${numbers.length} numbers`);
    assert.deepEqual(
      numbers,
      numbers.map((_, index) => last - numbers.length + 1 + index),
    );
    await ask(later, 71);
    await later.close();
    const pod = await node.kubectl('get', 'pods', '-l', 'vm.kubevirt.io/name=talks', '-o', 'name');
    await eventually(async () =>
      assert.match(await node.kubectl('logs', pod, '-c', 'guest-console-log', '--tail=5'), /^71001\r?$/m),
    );
  });

  test('kill -9 of the agent: the guest goes on, and a client that comes back to the next agent is in the same shell, having missed nothing', async () => {
    const before = await agent.stream('talks', route, sessionProtocol);
    await knockUntil(before, /# $/);
    before.type('mark=before-the-agent-died\r');
    await before.until(/died\r?\n/);
    const { line, offset } = await before.untilNotice('attached');
    before.type('sleep 2; echo said-in-$((40 + 2))\r');
    await before.until(/40 \+ 2/);
    process.kill(await node.pidOf('virt-handler'), 'SIGKILL');
    assert.equal((await before.untilClosed()).code, 1006);
    const after = await reopened(`?line=${line}&from=${Number(offset) + Buffer.byteLength(before.text)}`);
    const attached = await after.untilNotice('attached');
    assert.deepEqual([attached.line, attached.lost], [line, 0]);
    await after.until(/^said-in-42\r?$/m);
    await knockUntil(after, /# $/);
    after.type('echo "[$mark]"\r');
    await after.until(/^\[before-the-agent-died\]\r?$/m);
    await after.close();
  });

  test('SIGTERM to the agent: sessions are told to come back, by 1001', async () => {
    const console = await agent.stream('talks', route, sessionProtocol);
    await console.untilNotice('attached');
    process.kill(await node.pidOf('virt-handler'), 'SIGTERM');
    const { code, reason } = await console.untilClosed();
    assert.equal(code, 1001, reason);
    await (await reopened()).close();
  });

  test('a VMI that is not there is 404 on the stream, and so is one without a serial console in words', async () => {
    await assert.rejects(agent.stream('nobody', route), isRefusal(404, /default\/nobody does not exist/));
    const silent = demoVmi('silent', { terminationGracePeriodSeconds: 1 });
    silent.spec.domain.devices = { ...silent.spec.domain.devices, autoattachSerialConsole: false };
    await node.apply(silent);
    await node.vmiUntil('silent', (vmi) => vmi?.status?.phase === 'Running');
    await assert.rejects(agent.stream('silent', route), isRefusal(400, /autoattachSerialConsole/));
    await node.kubectl('delete', 'vmi', 'silent');
  });

  for (const protocol of [plainProtocol, sessionProtocol]) {
    test(`kill -9 of the guest's QEMU during a session ends it with a code and a reason (${protocol})`, async () => {
      await node.apply(demoVmi('dies', { terminationGracePeriodSeconds: 1 }));
      await node.vmiUntil('dies', (vmi) => vmi?.status?.phase === 'Running');
      const console = await agent.stream('dies', route, protocol);
      const pid = await node.qemuPid('dies');
      assert.ok(pid);
      process.kill(pid, 'SIGKILL');
      const { code, reason } = await console.untilClosed();
      assert.ok(code === 1000 || code === 4003, `${code} ${reason}`);
      assert.match(reason, /virtual machine|VMI/);
      await node.vmiUntil('dies', (vmi) => vmi?.status?.phase === 'Failed', 20_000);
      await assert.rejects(agent.stream('dies', route, protocol), UpgradeRefused);
      await node.kubectl('delete', 'vmi', 'dies');
      await assert.rejects(agent.stream('dies', route, protocol), isRefusal(404, /does not exist/));
    });
  }

  /** As a client does it that tries again. */
  async function reopened(query = ''): Promise<StreamClient> {
    let stream: StreamClient | undefined;
    await eventually(async () => {
      stream = await agent.stream('talks', `${route}${query}`, sessionProtocol);
    }, 60_000);
    assert.ok(stream);
    return stream;
  }
});

/** What QEMU has open. */
function serialLogOf(qemu: number | undefined): { readonly fd: string | undefined; readonly file: string } {
  const fileOf = (fd: string) => linkOf(`/proc/${qemu}/fd/${fd}`);
  const fd = readdirSync(`/proc/${qemu}/fd`).find((each) => fileOf(each).endsWith('virt-serial0-log'));
  return { fd, file: fileOf(fd ?? '') };
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

/** Empty: there is no such file. */
function textOf(file: string): string {
  return existsSync(file) ? readFileSync(file, 'utf8') : '';
}

function linkOf(file: string): string {
  try {
    return readlinkSync(file);
  } catch {
    return '';
  }
}

function isRefusal(status: number, text: RegExp) {
  return (error: unknown) => {
    assert.ok(error instanceof UpgradeRefused, String(error));
    assert.equal(error.httpStatus, status, error.body);
    assert.match(error.body, text);
    return true;
  };
}

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { bundleProgram } from '../../../scripts/bundle.mjs';
import { ScriptedLauncher } from '../../fixtures/scripted-launcher.ts';

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

describe('virt-probe', () => {
  let dir: string;
  let launcher: ScriptedLauncher;
  let socket: string;
  let program: string;

  before(async () => {
    dir = await mkdtemp(path.join(tmpdir(), 'virt-probe-'));
    program = path.join(dir, 'virt-probe.mjs');
    await bundleProgram('virt-probe', program);
    socket = path.join(dir, 'launcher-sock');
    launcher = await ScriptedLauncher.start({ socketFile: socket });
  });
  after(async () => {
    await launcher.stop();
    await rm(dir, { recursive: true });
  });

  function probe(...argv: string[]): Promise<Ended> {
    return new Promise((resolve) => {
      execFile(process.execPath, [program, ...argv], (error, stdout, stderr) => {
        resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr });
      });
    });
  }

  const of = () => ['--socket', socket, '--domainName', 'default_small'];

  test('runs a command in the guest, gives its output and its exit code', async () => {
    launcher.on('exec', () => ({ exitCode: 3, stdOut: 'not yet\n' }));
    const ended = await probe(...of(), '--timeoutSeconds', '5', '--command', 'test', '--', '-e', '/run/x', '--help');
    assert.deepEqual(ended, { code: 3, stdout: 'not yet\n', stderr: '' });
    const { request } = launcher.calls.findLast(({ rpc }) => rpc === 'exec') ?? assert.fail();
    const asked = { domainName: 'default_small', Command: 'test', Args: ['-e', '/run/x', '--help'], timeoutSeconds: 5 };
    assert.deepEqual(request, asked);
    launcher.on('exec', () => ({ exitCode: 0, stdOut: '' }));
    assert.equal((await probe(...of(), '--command', 'true')).code, 0);
  });

  test('asks whether the guest agent is there', async () => {
    assert.deepEqual(await probe(...of(), '--guestAgentPing'), { code: 0, stdout: '', stderr: '' });
    launcher.on('guestPing', () => {
      throw Object.assign(new Error(), { code: 2, details: 'Guest agent is not responding' });
    });
    const { code, stderr } = await probe(...of(), '--guestAgentPing');
    assert.equal(code, 1);
    assert.match(stderr, /^virt-probe: the guest agent does not answer .*Guest agent is not responding/);
    launcher.fail('guestPing', 'another word for no');
    const refused = await probe(...of(), '--guestAgentPing');
    launcher.heal('guestPing');
    assert.deepEqual([refused.code, /another word for no/.test(refused.stderr)], [1, true]);
  });

  test('gives up a launcher that is not there, or does not answer in time', async () => {
    const none = await probe('--socket', path.join(dir, 'none'), '--domainName', 'd', '--guestAgentPing');
    assert.equal(none.code, 1);
    assert.match(none.stderr, /launcher at .*none/);
    launcher.hang('guestPing');
    const late = await probe(...of(), '--guestAgentPing', '--timeoutSeconds', '1');
    launcher.heal('guestPing');
    assert.equal(late.code, 1);
    assert.match(late.stderr, /the guest agent does not answer/);
  });

  test('says what a command line lacks', async () => {
    for (const [argv, text] of [
      [['--guestAgentPing'], /--domainName says which guest/],
      [of(), /either --command PROGRAM or --guestAgentPing/],
      [[...of(), '--command', 'x', '--guestAgentPing'], /either/],
      [[...of(), '--guestAgentPing', '--timeoutSeconds', '0'], /at least 1/],
      [[...of(), '--guestAgentPing', '--fast'], /fast/],
    ] as const) {
      const { code, stderr } = await probe(...argv);
      assert.equal(code, 1);
      assert.match(stderr, text);
    }
    assert.match((await probe('--help')).stdout, /--timeoutSeconds int/);
  });
});

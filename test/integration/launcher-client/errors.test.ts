import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { vmiRequest } from '../../../src/launcher-client/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { scriptedDomain } from '../../fixtures/scripted-launcher.ts';
import { type ClientsBench, eachTestHasClientsBench, hasCode, key, targetOf, uid } from './clients-bench.ts';

let bench: ClientsBench;
eachTestHasClientsBench((each) => {
  bench = each;
});

describe('error mapping', () => {
  async function connected() {
    const launcher = await bench.launcherOf();
    return { launcher, connection: await bench.clientsOf().connect(targetOf()) };
  }

  it('turns success=false into the text that conditions carry, quoted as Go does', async () => {
    const { launcher, connection } = await connected();
    launcher.fail('syncVirtualMachine', 'EFI OVMF rom missing: "x"\n');
    const text = 'server error. command SyncVMI failed: "EFI OVMF rom missing: \\"x\\"\\n"';
    await assert.rejects(
      connection.call('syncVirtualMachine', vmiRequest({} as never)),
      hasCode('COMMAND_FAILED', text),
    );
  });

  it('tells an rpc that an old launcher lacks', async () => {
    const { launcher, connection } = await connected();
    launcher.on('getQemuVersion', () => {
      throw Object.assign(new Error('no such method'), { code: 12 });
    });
    const text = 'rpc error: code = Unimplemented desc = no such method';
    await assert.rejects(connection.call('getQemuVersion', {}), hasCode('UNIMPLEMENTED', text));
  });

  it('names the command and the status of any other failure', async () => {
    const { launcher, connection } = await connected();
    launcher.on('getUsers', () => {
      throw Object.assign(new Error('agent'), { code: 2 });
    });
    const text = 'unknown error encountered sending command GetUsers: rpc error: code = Unknown desc = agent';
    await assert.rejects(connection.call('getUsers', {}), hasCode('RPC_FAILED', text));
  });

  it('treats a cancelled call as disconnected', async () => {
    const { launcher, connection } = await connected();
    launcher.on('killVirtualMachine', () => {
      throw Object.assign(new Error('context canceled'), { code: 1 });
    });
    const text = 'rpc error: code = Canceled desc = context canceled';
    await assert.rejects(connection.call('killVirtualMachine', vmiRequest({} as never)), hasCode('DISCONNECTED', text));
  });

  it('leaves answers of exec, guestPing and redefineCheckpoint to the caller', async () => {
    const { launcher, connection } = await connected();
    launcher.on('redefineCheckpoint', () => ({
      response: { success: false, message: 'bad' },
      checkpointInvalid: true,
    }));
    const answer = await connection.call('redefineCheckpoint', { vmi: undefined, checkpoint: Buffer.alloc(0) });
    assert.equal(answer.checkpointInvalid, true);
  });

  it('refuses an answer above 4 MiB', async () => {
    const { launcher, connection } = await connected();
    launcher.on('getScreenshot', () => ({
      response: { success: true, message: '' },
      data: Buffer.alloc(5 * 1024 * 1024),
    }));
    await assert.rejects(connection.call('getScreenshot', vmiRequest({} as never)), hasCode('TOO_LARGE'));
    await connection.ping();
  });

  it('refuses a domain that is not JSON, too large or nested without end', async () => {
    const { launcher, connection } = await connected();
    for (const domain of ['{', '[]', `{"a":"${'x'.repeat(1024 * 1024)}"}`, '['.repeat(100_000), '{"ObjectMeta":7}']) {
      launcher.domain = domain;
      await assert.rejects(connection.getDomain(), hasCode('BAD_ANSWER'), domain.slice(0, 20));
    }
    launcher.domain = scriptedDomain(key, uid);
    assert.equal((await connection.getDomain())?.Status.Status, 'Running');
  });

  it('gives up a call when the signal fires, and says so', async () => {
    const { launcher, connection } = await connected();
    launcher.hang('getDomain');
    const abort = new AbortController();
    const call = assert.rejects(connection.getDomain(abort.signal), hasCode('ABORTED'));
    await eventually(() => assert.equal(launcher.count('getDomain'), 1));
    abort.abort();
    await call;
  });
});

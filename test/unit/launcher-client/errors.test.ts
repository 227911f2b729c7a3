import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { mapRpcError } from '../../../src/launcher-client/errors.ts';
import { commands } from '../../../src/launcher-client/index.ts';

describe('mapRpcError', () => {
  const error = (code: number) =>
    Object.assign(new Error(`${code} x`), { code, details: 'x', metadata: undefined as never });
  const rows: [number, boolean, string, string][] = [
    [1, false, 'DISCONNECTED', 'rpc error: code = Canceled desc = x'],
    [12, false, 'UNIMPLEMENTED', 'rpc error: code = Unimplemented desc = x'],
    [14, true, 'DISCONNECTED', 'rpc error: code = Unavailable desc = x'],
    [
      14,
      false,
      'UNAVAILABLE',
      'unknown error encountered sending command Kill: rpc error: code = Unavailable desc = x',
    ],
    [
      4,
      false,
      'TIMEOUT',
      'unknown error encountered sending command Kill: rpc error: code = DeadlineExceeded desc = x',
    ],
    [
      8,
      false,
      'TOO_LARGE',
      'unknown error encountered sending command Kill: rpc error: code = ResourceExhausted desc = x',
    ],
    [2, true, 'RPC_FAILED', 'unknown error encountered sending command Kill: rpc error: code = Unknown desc = x'],
    [99, false, 'RPC_FAILED', 'unknown error encountered sending command Kill: rpc error: code = Code(99) desc = x'],
  ];
  for (const [code, ended, wanted, text] of rows) {
    it(`status ${code}, launcher ${ended ? 'ended' : 'runs'}: ${wanted}`, () => {
      const mapped = mapRpcError('Kill', error(code), ended);
      assert.equal(mapped.code, wanted);
      assert.equal(mapped.message, text);
    });
  }
});

describe('commands', () => {
  it('have the deadlines of upstream’s client', () => {
    const seconds = Object.values(commands).map(({ timeoutMs }) => timeoutMs / 1_000);
    assert.equal(seconds.length, 36);
    assert.equal(commands.freezeVirtualMachine.timeoutMs, 60_000);
    assert.equal(commands.syncVirtualMachine.timeoutMs, 20_000);
    assert.equal(commands.getDomain.timeoutMs, 5_000);
    assert.equal(commands.getDomainDirtyRateStats.timeoutMs, 20_000);
    assert.deepEqual(
      [...new Set(seconds)].sort((a, b) => a - b),
      [5, 20, 60],
    );
  });
});

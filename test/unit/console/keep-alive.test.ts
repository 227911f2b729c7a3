import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KeepAlive, type KeepAlivePeer } from '../../../src/console/keep-alive.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';

class Peer implements KeepAlivePeer {
  heardCount = 0;
  movedCount: number | undefined;
  deaf = false;
  pings = 0;
  isGivenUp = false;
  heard = () => this.heardCount;
  moved = () => this.movedCount;
  isDeaf = () => this.deaf;
  ping = () => {
    this.pings++;
  };
  giveUp = () => {
    this.isGivenUp = true;
  };
}

function start() {
  const clock = new FakeClock();
  const peer = new Peer();
  return { clock, peer, keepAlive: new KeepAlive(30_000, clock, peer) };
}

test('a peer that says nothing gets two pings and is given up when both stay unanswered', () => {
  const { clock, peer } = start();
  clock.advance(29_999);
  assert.equal(peer.pings, 0);
  clock.advance(1);
  assert.equal(peer.pings, 1);
  clock.advance(30_000);
  assert.deepEqual([peer.pings, peer.isGivenUp], [2, false]);
  clock.advance(30_000);
  assert.deepEqual([peer.pings, peer.isGivenUp, clock.timers], [2, true, 0]);
});

test('a peer that answers each ping stays for ever', () => {
  const { clock, peer } = start();
  for (let round = 0; round < 100; round++) {
    clock.advance(30_000);
    peer.heardCount++;
  }
  assert.equal(peer.isGivenUp, false);
  assert.equal(peer.pings, 1, 'who speaks by itself is not asked');
});

test('a pong after the first missed one starts the count anew', () => {
  const { clock, peer } = start();
  clock.advance(60_000);
  peer.heardCount++;
  clock.advance(60_000 + 30_000);
  assert.equal(peer.isGivenUp, false);
  clock.advance(30_000);
  assert.equal(peer.isGivenUp, true);
});

test('a slow reader whose pongs are late is alive while what waits for it gets less', () => {
  const { clock, peer } = start();
  for (let round = 0; round < 20; round++) {
    peer.movedCount = round;
    clock.advance(30_000);
  }
  assert.equal(peer.isGivenUp, false);
  clock.advance(90_000);
  assert.equal(peer.isGivenUp, true, 'until nothing moves any more');
});

test('the silence of one whose input is held back says nothing', () => {
  const { clock, peer } = start();
  peer.deaf = true;
  clock.advance(3_000_000);
  assert.deepEqual([peer.isGivenUp, peer.pings], [false, 100]);
});

test('nothing is left after the stop', () => {
  const { clock, keepAlive } = start();
  keepAlive.stop();
  assert.equal(clock.timers, 0);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PipedLines } from '../../../src/standalone/cli/piped-lines.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';

function begin() {
  const clock = new FakeClock();
  const sent: string[] = [];
  const reported: string[] = [];
  const lines = new PipedLines({
    clock,
    send: (bytes) => void sent.push(bytes.toString()),
    report: (line) => void reported.push(line),
    done: () => void sent.push('(done)'),
  });
  /** And is silent for a moment. */
  const says = (text: string) => {
    lines.saw(Buffer.from(text));
    clock.advance(200);
  };
  return { clock, lines, reported, says, taken: () => sent.splice(0) };
}

test('a guest that still boots gets its line when it shows a prompt, and is waited for until the next one', () => {
  const { clock, lines, says, taken } = begin();
  says('Linux version 6\r\n');
  lines.push(Buffer.from('uname -a\n'));
  lines.end();
  for (let seconds = 0; seconds < 60; seconds++) {
    clock.advance(1_000);
    says(`[ ${seconds} ] boots\r\n`);
  }
  assert.deepEqual(taken(), []);
  says('\u001b[1;31m/ # \u001b[0m');
  assert.deepEqual(taken(), ['uname -a\n']);
  says('uname -a\r\n');
  clock.advance(30_000);
  says('Linux demo\r\n');
  assert.deepEqual(taken(), []);
  says('/ # ');
  assert.deepEqual(taken(), ['(done)']);
  assert.equal(clock.timers, 0);
});

test('input that comes and ends behind a prompt that was just seen does not make it wait', () => {
  const { clock, lines, taken } = begin();
  lines.saw(Buffer.from('/ # '));
  lines.push(Buffer.from('ls\n'));
  lines.end();
  clock.advance(200);
  assert.deepEqual(taken(), ['ls\n']);
});

test('a part of an answer that ends like a prompt is none', () => {
  const { lines, says, taken } = begin();
  says('/ # ');
  lines.push(Buffer.from('cat x.xml\n'));
  lines.end();
  lines.saw(Buffer.from('cat x.xml\r\n<a>'));
  lines.saw(Buffer.from('1</a>'));
  lines.saw(Buffer.from('\r\n/ #'));
  lines.saw(Buffer.from(' '));
  assert.deepEqual(taken(), ['cat x.xml\n']);
  says('');
  assert.deepEqual(taken(), ['(done)']);
});

test('an echo that ends like a prompt is none', () => {
  const { lines, says, taken } = begin();
  says('/ # ');
  lines.push(Buffer.from('for d in a; do echo $d; done\n'));
  lines.end();
  says('for d in a; do echo $');
  assert.deepEqual(taken(), ['for d in a; do echo $d; done\n']);
  says('d; done\r\na\r\n/ # ');
  assert.deepEqual(taken(), ['(done)']);
});

test('a login takes a line for each question, and is told of', () => {
  const { lines, says, taken, reported } = begin();
  says('demo login: ');
  lines.push(Buffer.from('user\nsecret\nid'));
  assert.deepEqual(taken(), ['user\n']);
  assert.match(reported.join(), /asks for a login/);
  says('user\r\nPassword: ');
  assert.deepEqual(taken(), ['secret\n']);
  says('\r\nWelcome\r\n$ ');
  assert.deepEqual(taken(), []);
  lines.end();
  assert.deepEqual(taken(), ['id']);
});

test('a program without prompts gets a line after a second of silence', () => {
  const { clock, lines, says, taken } = begin();
  says('$ ');
  lines.push(Buffer.from('cat\none\ntwo\n'));
  lines.saw(Buffer.from('cat\r\n'));
  clock.advance(999);
  assert.deepEqual(taken(), ['cat\n']);
  clock.advance(1);
  assert.deepEqual(taken(), ['one\n']);
  clock.advance(1_000);
  assert.deepEqual(taken(), ['two\n']);
  lines.end();
  clock.advance(59_999);
  assert.deepEqual(taken(), []);
  clock.advance(1);
  assert.deepEqual(taken(), ['(done)']);
});

test('a guest of which nothing is known is asked for its prompt once; one that shows none gets the input all the same', () => {
  const { clock, lines, taken, reported } = begin();
  lines.push(Buffer.from('x\n'));
  clock.advance(1_000);
  assert.deepEqual(taken(), ['\r']);
  clock.advance(19_999);
  assert.deepEqual([taken(), reported], [[], []]);
  clock.advance(1);
  assert.deepEqual(taken(), ['x\n']);
  assert.match(reported.join(), /shows no prompt/);
  lines.end();
  clock.advance(1_000);
  assert.deepEqual(taken(), ['(done)']);
});

test('what is left is forgotten', () => {
  const { clock, lines, says, taken } = begin();
  lines.push(Buffer.from('x\n'));
  lines.stop();
  says('# ');
  clock.advance(100_000);
  assert.deepEqual([taken(), clock.timers], [[], 0]);
});

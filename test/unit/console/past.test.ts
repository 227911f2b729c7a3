import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type ConsolePast, continuation, joinedPast, meetingOffset } from '../../../src/console/past.ts';
import { Scrollback } from '../../../src/console/scrollback.ts';

const past = (line: string, text: string, end = text.length): ConsolePast => ({ line, end, bytes: Buffer.from(text) });
const nobody = async () => undefined;

interface Story {
  /** The log before the connection and afterwards, which is what is shown, and when it is read again. */
  readonly before?: string;
  readonly after: string;
  readonly again: string | undefined;
  /** By the connection. */
  readonly heard: string;
  /** In the end. */
  readonly later?: string;
  readonly logged?: number;
}

/** What a client sees in the end. */
function seen({ before, after, again, heard, later = '', logged = heard.length }: Story): string {
  const joined = joinedPast(before === undefined ? undefined : past('l', before), past('l', after), nobody);
  assert.ok(joined);
  const log = again === undefined ? undefined : past('l', again);
  const { bytes, repeated } = continuation(joined, log, { bytes: Buffer.from(heard), logged });
  return after + bytes.toString() + later.slice(repeated);
}

test('what the guest wrote while its console was connected to is shown once', () => {
  const boot = { before: 'boot ', again: 'boot login: ', heard: 'login: ' };
  assert.equal(seen({ ...boot, after: 'boot login' }), 'boot login: ');
  assert.equal(seen({ ...boot, after: 'boot log', heard: 'in: ' }), 'boot login: ');
  assert.equal(seen({ ...boot, before: 'other', after: 'boot login: ' }), 'boot login: ');
  const unread = joinedPast(past('other', 'boot login'), past('l', 'login'), nobody);
  assert.equal(unread?.floor, 0);
});

test('what it wrote between the reading of its log and QEMU’s taking of the connection is shown, too', () => {
  assert.equal(seen({ before: 'a', after: 'ab', again: 'abcdefg', heard: 'fg' }), 'abcdefg');
});

test('what is on its way, or not logged yet, is taken at its place', () => {
  assert.equal(seen({ before: '', after: 'abcdef', again: 'abcdef', heard: 'ab', later: 'cdefg' }), 'abcdefg');
  assert.equal(seen({ before: 'ab', after: 'abc', again: 'abcde', heard: 'cdefg', logged: 2 }), 'abcdefg');
});

test('what the guest writes anew is shown, however alike it is', () => {
  assert.equal(seen({ before: 'a\n', after: 'a\n', again: 'a\na\n', heard: 'a\n' }), 'a\na\n');
  assert.equal(seen({ before: 'xx', after: 'xxx', again: 'xxxxxx', heard: 'xxxx' }), 'xxxxxx');
});

test('several places that look the same are no certainty, and the last possible one is taken', () => {
  const log = past('l', 'y\ny\ny\ny\n');
  const heard = { bytes: Buffer.from('y\n'), logged: 2 };
  assert.deepEqual(meetingOffset(log, heard, 0), { offset: 6, isOnly: false });
  assert.deepEqual(meetingOffset(log, heard, 6), { offset: 6, isOnly: true });
});

test('a log that is not to be read, is another one, or has none of it hides nothing', () => {
  assert.equal(seen({ before: 'a', after: 'ab', again: undefined, heard: 'bc' }), 'abbc');
  assert.equal(seen({ before: 'a', after: 'ab', again: 'abXX', heard: 'bc' }), 'abbc');
  const joined = joinedPast(undefined, past('l', 'ab'), nobody);
  assert.ok(joined);
  const heard = { bytes: Buffer.from('bc'), logged: 2 };
  assert.equal(continuation(joined, past('other', 'abc'), heard).bytes.toString(), 'bc');
  assert.equal(joinedPast(past('l', 'ab'), undefined, nobody), undefined);
  assert.deepEqual(meetingOffset(past('l', 'ab'), heard, 5), { offset: 2, isOnly: true });
  assert.deepEqual(meetingOffset(past('l', 'aa'), { ...heard, logged: 0 }, 0), { offset: 2, isOnly: true });
});

test('in a flood the past and what comes meet at the byte, whenever the log was read', () => {
  // Lines of a counter: as `dmesg`, `find` and `seq` write them.
  const flood = Array.from({ length: 3_000 }, (_, line) => `line ${line}\r\n`).join('');
  const kept = 8_192;
  const logAt = (end: number) => past('l', flood.slice(Math.max(0, end - kept), end), end);
  fc.assert(
    fc.property(
      fc.tuple(fc.nat(20_000), fc.nat(3_000), fc.nat(3_000), fc.nat(2_000), fc.nat(2_000), fc.nat(500)),
      ([start, untilAfter, untilTaken, heardMore, onItsWay, more]) => {
        const after = start + untilAfter;
        const taken = start + untilTaken;
        // Two lines: of fewer bytes there may be several places, which is said.
        const heardEnd = taken + 24 + heardMore;
        const logEnd = Math.max(heardEnd + onItsWay, after);
        const joined = joinedPast(logAt(start), logAt(after), nobody);
        assert.ok(joined);
        const heard = { bytes: Buffer.from(flood.slice(taken, heardEnd)), logged: 1 };
        const { bytes, repeated, isCertain } = continuation(joined, logAt(logEnd), heard);
        assert.equal(isCertain, true);
        const later = flood.slice(heardEnd, logEnd + more).slice(repeated);
        const shownFrom = after - joined.bytes.length;
        assert.equal(joined.bytes.toString() + bytes.toString() + later, flood.slice(shownFrom, logEnd + more));
      },
    ),
    { examples: [[[100, 50, 60, 0, 0, 0]]] },
  );
});

test('a scrollback that begins later finds its bytes by the offsets of the whole line', () => {
  fc.assert(
    fc.property(fc.nat(5_000), fc.array(fc.integer({ min: 0, max: 30 }), { maxLength: 30 }), (from, lengths) => {
      const scrollback = new Scrollback(64, from);
      let all = Buffer.alloc(0);
      for (const length of lengths) {
        const chunk = Buffer.from(Array.from({ length }, (_, index) => (all.length + index) % 251));
        scrollback.append(chunk);
        all = Buffer.concat([all, chunk]);
      }
      assert.equal(scrollback.end, from + all.length);
      assert.equal(scrollback.start, from + Math.max(0, all.length - 64));
      assert.deepEqual(scrollback.read(scrollback.start, 1_000), all.subarray(-64));
    }),
  );
});

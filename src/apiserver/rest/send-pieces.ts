import type { Response } from 'express';
import { type Clock, systemClock } from '../../base/index.ts';
import type { Encoding } from './negotiate.ts';

/** What is gathered before it is written: an answer no longer than this goes as one. */
const chunkLength = 64 * 1024;
/** Unsent bytes at which the next piece is not even made. */
const bufferBytes = 256 * 1024;
/** A client that has not taken what was sent to it for so long is cut off. */
const stalledMs = 60_000;

/** Sends JSON, which is YAML too, piece by piece as the client takes it, so that an answer which is not read takes no memory. */
export function sendPieces(
  response: Response,
  pieces: Iterable<string>,
  encoding: Encoding = 'json',
  clock: Clock = systemClock,
): void {
  response.status(200).set('Content-Type', `application/${encoding}`).set('Cache-Control', 'no-cache, private');
  new PieceSender(response, chunksOf(pieces), clock).send();
}

function* chunksOf(pieces: Iterable<string>): Generator<{ readonly text: string; readonly isLast: boolean }> {
  let text = '';
  for (const piece of pieces) {
    if (text.length > chunkLength) {
      yield { text, isLast: false };
      text = '';
    }
    text += piece;
  }
  yield { text, isLast: true };
}

class PieceSender {
  readonly #response: Response;
  readonly #chunks: ReturnType<typeof chunksOf>;
  readonly #clock: Clock;

  constructor(response: Response, chunks: ReturnType<typeof chunksOf>, clock: Clock) {
    this.#response = response;
    this.#chunks = chunks;
    this.#clock = clock;
  }

  send(): void {
    const response = this.#response;
    while (!response.destroyed && response.writableLength <= bufferBytes) {
      const { value } = this.#chunks.next();
      if (!value) return;
      if (!value.isLast) response.write(value.text);
      else response.end(value.text);
    }
    if (!response.destroyed && !response.writableEnded) this.#goOnLater();
  }

  #goOnLater(): void {
    const cancel = this.#clock.schedule(stalledMs, () => this.#response.destroy());
    const goOn = () => {
      cancel();
      this.#response.off('close', cancel);
      this.send();
    };
    this.#response.once('close', cancel).once('drain', goOn);
  }
}

/** JSON of an object with a list as its last member. */
export function* jsonWithList(head: object, name: string, items: Iterable<string>): Generator<string> {
  yield `${JSON.stringify(head).slice(0, -1)},${JSON.stringify(name)}:[`;
  let separator = '';
  for (const item of items) {
    yield `${separator}${item}`;
    separator = ',';
  }
  yield ']}';
}

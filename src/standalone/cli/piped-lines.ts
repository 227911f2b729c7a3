import { stripVTControlCharacters } from 'node:util';
import type { Clock } from '../../base/index.ts';

export interface PipedLinesDeps {
  readonly clock: Clock;
  readonly send: (bytes: Buffer) => void;
  /** Lines for people. */
  readonly report: (line: string) => void;
  /** All was sent, and the guest has answered as far as can be told. Called once. */
  readonly done: () => void;
}

/** Behind a prompt the guest is silent; the end of a part of an answer may look like one, and the rest follows at once. */
const promptMs = 200;
/** A program that reads lines and shows no prompt gets the next one after this much silence. */
const quietMs = 1_000;
/** A guest of which nothing is known is asked for its prompt by Enter. */
const knockMs = 1_000;
/** One that shows none is not waited for any longer. */
const noPromptMs = 20_000;
/** A command that shows no prompt after it, though there was one before it. */
const noAnswerMs = 60_000;
const keptBytes = 4_096;

const prompt = /(?:[#$%>]|login:|[Pp]assword:) ?$/;

/**
 * Gives a guest what is piped in, a line at a time, each when it shows a prompt: one that still boots reads nothing, and one that asks for a
 * login throws away what was typed ahead.
 */
export class PipedLines {
  readonly #deps: PipedLinesDeps;
  readonly #lines: Buffer[] = [];
  #rest = Buffer.alloc(0);
  /** The end of what the guest wrote, of this line and a few before. */
  #shown = '';
  /** It may have the next line. */
  #isOpen = false;
  #hasPrompted = false;
  #hasSent = false;
  #hasEnded = false;
  #isOver = false;
  #cancel = () => {};
  #cancelPrompt = () => {};

  constructor(deps: PipedLinesDeps) {
    this.#deps = deps;
    this.#wait();
  }

  /** The guest wrote this, now or before. */
  saw(bytes: Buffer): void {
    this.#shown = (this.#shown + bytes.toString('latin1')).slice(-keptBytes);
    this.#wait();
    this.#cancelPrompt();
    if (this.#isOver || this.#isOpen || !this.#atPrompt()) return;
    this.#cancelPrompt = this.#deps.clock.schedule(promptMs, () => {
      this.#hasPrompted = true;
      this.#open();
    });
  }

  push(bytes: Buffer): void {
    let left = Buffer.concat([this.#rest, bytes]);
    for (let end = left.indexOf(0x0a); end >= 0; end = left.indexOf(0x0a)) {
      this.#lines.push(left.subarray(0, end + 1));
      left = left.subarray(end + 1);
    }
    this.#rest = left;
    this.#next();
  }

  /** Nothing more is piped in. */
  end(): void {
    if (this.#rest.length > 0) this.#lines.push(this.#rest);
    this.#rest = Buffer.alloc(0);
    this.#hasEnded = true;
    this.#next();
    this.#wait();
  }

  stop(): void {
    this.#isOver = true;
    this.#cancel();
    this.#cancelPrompt();
  }

  /** Behind its own echo of a line there is a line end first: what is echoed of `echo $HOME` may end like a prompt. */
  #atPrompt(): boolean {
    if (this.#hasSent && !this.#shown.includes('\n')) return false;
    const line = this.#shown.slice(this.#shown.lastIndexOf('\n') + 1);
    return prompt.test(stripVTControlCharacters(line));
  }

  #open(): void {
    this.#cancel();
    this.#cancelPrompt();
    this.#isOpen = true;
    this.#next();
  }

  #next(): void {
    if (!this.#isOpen || this.#isOver) return;
    const line = this.#lines.shift();
    if (line) {
      if (!this.#hasSent && /login: ?$/.test(this.#shown)) {
        this.#deps.report('the guest asks for a login: the first line of the input answers that');
      }
      this.#hasSent = true;
      this.#isOpen = false;
      this.#shown = '';
      this.#deps.send(line);
      this.#wait();
    } else if (this.#hasEnded) {
      this.stop();
      this.#deps.done();
    }
  }

  /** From now on, for a guest that shows no prompt. */
  #wait(): void {
    this.#cancel();
    if (this.#isOver || this.#isOpen) return;
    const isLast = this.#hasSent && this.#hasEnded && this.#lines.length === 0;
    if (this.#hasSent) {
      const ms = isLast && this.#hasPrompted ? noAnswerMs : quietMs;
      this.#cancel = this.#deps.clock.schedule(ms, () => this.#open());
      return;
    }
    const isKnown = this.#shown !== '';
    this.#cancel = this.#deps.clock.schedule(isKnown ? noPromptMs : knockMs, () => this.#unprompted(isKnown));
  }

  #unprompted(isKnown: boolean): void {
    if (!isKnown) {
      this.#deps.send(Buffer.from('\r'));
      this.#cancel = this.#deps.clock.schedule(noPromptMs, () => this.#unprompted(true));
      return;
    }
    this.#deps.report('the guest shows no prompt: the input is sent all the same (--view looks on)');
    this.#open();
  }
}

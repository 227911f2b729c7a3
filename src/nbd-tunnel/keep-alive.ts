import type { Http2Session } from 'node:http2';
import type { Clock } from '../base/index.ts';
import { TunnelError } from './errors.ts';

/** Upstream's; its servers take no more than one in 5 s. */
const everyMs = 10_000;
const answerMs = 10_000;

/** A peer that is silently gone, with its node, keeps no session: it answers no ping. Ends with the session. */
export function keepAlive(session: Http2Session, clock: Clock): void {
  let cancel: () => void = () => undefined;
  const wait = (): void => {
    cancel = clock.schedule(everyMs, ask);
  };
  const ask = (): void => {
    const late = clock.schedule(answerMs, () => session.destroy(new TunnelError('CUT', 'the other side is silent')));
    cancel = late;
    const isAsked = session.ping((error) => {
      late();
      if (!error && !session.destroyed) wait();
    });
    if (!isAsked) late();
  };
  session.once('close', () => cancel());
  wait();
}

import { durationText } from '../duration.ts';

/** Times as people say them. */

/** Both as RFC 3339; a clock that is a little behind gives no negative time. */
export function ago(time: string, now: number): string {
  const ms = now - Date.parse(time);
  if (Number.isNaN(ms)) return '';
  return ms < 1_000 ? 'now' : `${durationText(ms)} ago`;
}

/** Age of something that was made at `time`. */
export function age(time: string, now: number): string {
  const ms = now - Date.parse(time);
  return Number.isNaN(ms) ? '' : durationText(Math.max(1_000, ms));
}

export function count(many: number, one: string, several = `${one}s`): string {
  return `${many} ${many === 1 ? one : several}`;
}

/** `demo`, `demo-2`, …: the first that is free. */
export function freeName(wanted: string, isTaken: (name: string) => boolean): string {
  for (let number = 1; ; number++) {
    const name = number === 1 ? wanted : `${wanted}-${number}`;
    if (!isTaken(name)) return name;
  }
}

/** `GuestNotRunning` → `guest not running`. */
export function spaced(camel: string): string {
  return camel
    .replace(/([a-z\d])([A-Z])/g, '$1 $2')
    .replace(/([A-Z])([A-Z][a-z])/g, '$1 $2')
    .toLowerCase();
}

export function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

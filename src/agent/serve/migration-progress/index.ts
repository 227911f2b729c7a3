/**
 * Owns: how far the guests that leave this node have come, while they do: asked of their launchers, for explain and for the annotation.
 * Must not know: rules, how a status is written, how streams are carried.
 */
export { MigrationFollower } from './follower.ts';

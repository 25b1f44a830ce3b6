// Makes PocketBase promise what the service promises: a create is on disk when
// it is acknowledged, and a request without a valid token is refused with 401.

routerUse($apis.requireAuth('users'))

// All writes go through one connection, which is opened with NORMAL.
onBootstrap(event => {
  event.next()
  event.app.nonconcurrentDB().newQuery('PRAGMA synchronous = FULL').execute()
})

// An idle connection is replaced after three minutes; this never lets it idle.
cronAdd('synchronous', '* * * * *', () => {
  $app.nonconcurrentDB().newQuery('PRAGMA synchronous = FULL').execute()
})

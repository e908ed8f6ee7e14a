#ifndef X_OPEN
#define X_OPEN
#include "server/tier/object_store.h"
#endif

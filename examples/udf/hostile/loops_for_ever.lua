function dynamic_dataset()
    local secret = lib.getData("Secret")
    while true do
        secret[1] = 1
    end
end
